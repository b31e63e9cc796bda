// CUPTI: no activity is recorded; see docs/simulated-cuda.md. Only its version is known.
#include <cupti.h>

#define API extern "C" __attribute__((visibility("default")))
API CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
API CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED: the simulated device records no activity";
  return CUPTI_SUCCESS;
}
