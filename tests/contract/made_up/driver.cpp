// All that the made-up vendor writes of a driver: its runtime is shaped as CUDA's is, but for one name.
#include "beta_runtime.h"
#define betaPointerAttributes betaPointerAttribute_t
#define TD_RUNTIME_GRAPHS
#define TD_RUNTIME(name) beta##name
#include <third_device/runtime_driver.h>

extern "C" const td_driver* third_device_driver() {
  static const td_driver table = third_device::runtime_driver();
  return &table;
}
