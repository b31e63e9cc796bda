// cuSOLVER: its version, and handles; the rest answers success.
#include <cusolverDn.h>

#include "record.h"

#define API extern "C" __attribute__((visibility("default")))
// A handle is not in the ledger: PyTorch makes one per thread and keeps it, so which test makes it hangs on those before it.
API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* out) {
  simlib::make(out);
  return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  free(handle);
  return CUSOLVER_STATUS_SUCCESS;
}
API cusolverStatus_t cusolverGetVersion(int* version) {
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}
