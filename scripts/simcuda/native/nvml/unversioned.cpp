// The names without a version, which PyTorch looks up with dlsym.
#include <nvml.h>

#define NVML_API extern "C" __attribute__((visibility("default"))) nvmlReturn_t

NVML_API nvmlInit(void) { return nvmlInit_v2(); }
NVML_API nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }
NVML_API nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
NVML_API nvmlDeviceGetHandleByPciBusId(const char* text, nvmlDevice_t* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}
// Before version 3 the records were smaller; there are none either way.
NVML_API nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_v1_t*) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, nullptr);
}
