/* What an extension in stable-ABI mode may use of a backend: C alone, so that it outlives a release of PyTorch.
 *
 * Memory and tensors are PyTorch's stable interface (torch/csrc/stable), work goes on the current stream by the driver's
 * own functions.
 */
#ifndef THIRD_DEVICE_STABLE_H
#define THIRD_DEVICE_STABLE_H

#include <third_device/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The backend's table. */
TD_API const td_driver* third_device_table(void);
/* The driver's stream that this thread's work on `device` goes to; TD_INVALID where there is no such device. */
TD_API td_status third_device_current_stream(int device, td_stream* stream);

#ifdef __cplusplus
}
#endif
#endif
