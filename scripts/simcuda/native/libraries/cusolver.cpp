// cuSOLVER: its version; the rest answers success.
#include <cusolverDn.h>

#include "record.h"

extern "C" __attribute__((visibility("default"))) cusolverStatus_t cusolverGetVersion(int* version) {
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}
