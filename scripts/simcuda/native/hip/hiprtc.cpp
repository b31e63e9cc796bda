// HIP's compiler at run time: that of CUDA's stand-in, which compiles nothing, with another version.
#include <hip/hip_version.h>
#include <hip/hiprtc.h>

extern "C" __attribute__((visibility("default"))) hiprtcResult hiprtcVersion(int* major, int* minor) {
  *major = HIP_VERSION_MAJOR, *minor = HIP_VERSION_MINOR;
  return HIPRTC_SUCCESS;
}
