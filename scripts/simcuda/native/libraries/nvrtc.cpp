// NVRTC: nothing is compiled. A program is its source; asking for its image is answered with "not supported", with a log
// that says so, so that the jiterator and fused kernels fail where a compiler would be needed.
#include <nvrtc.h>

#include <cstring>

#include "../interface.h"

#define API extern "C" __attribute__((visibility("default")))
API nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = SIMCUDA_CUDA_VERSION / 1000, *minor = SIMCUDA_CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}
API const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION: the simulated device compiles nothing";
}
