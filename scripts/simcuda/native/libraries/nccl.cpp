// NCCL: its version; collectives follow in their own file.
#include <nccl.h>

#define API extern "C" __attribute__((visibility("default")))
API ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
API const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an error of the simulated NCCL";
}
API const char* ncclGetLastError(ncclComm_t) { return ""; }
