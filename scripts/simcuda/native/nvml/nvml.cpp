// NVML sees every device of the machine, whatever CUDA_VISIBLE_DEVICES says, and works without a CUDA context.
// Its own library: it is loaded alone by torch._C and by Python's pynvml.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <nvml.h>

#define NVML_API extern "C" __attribute__((visibility("default"))) nvmlReturn_t

namespace {

unsigned device_count() {
  const char* text = getenv("SIMCUDA_DEVICES");
  int n = text && *text ? atoi(text) : 2;
  return unsigned(n < 0 ? 0 : n > 8 ? 8 : n);
}
unsigned long long memory() {
  const char* text = getenv("SIMCUDA_MEMORY");
  return text && *text ? strtoull(text, nullptr, 10) : 16ull << 30;
}
// a handle is the device's number plus one
nvmlDevice_t handle_of(unsigned number) { return (nvmlDevice_t)(size_t(number) + 1); }
unsigned number_of(nvmlDevice_t device) { return unsigned(size_t(device)) - 1; }
bool valid(nvmlDevice_t device) { return number_of(device) < device_count(); }
#define DEVICE(device) \
  if (!valid(device)) return NVML_ERROR_INVALID_ARGUMENT

void write_uuid(unsigned number, char* text, unsigned room) {  // the bytes of cudaDeviceProp.uuid
  unsigned char b[16] = {0, 0, 0, (unsigned char)number};
  for (int i = 4; i < 16; i++) b[i] = (unsigned char)(0x10 + i);
  snprintf(text, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
           b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

}  // namespace

NVML_API nvmlInit_v2(void) { return NVML_SUCCESS; }
NVML_API nvmlInitWithFlags(unsigned) { return NVML_SUCCESS; }
NVML_API nvmlShutdown(void) { return NVML_SUCCESS; }
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_SUCCESS ? "Success" : result == NVML_ERROR_NOT_SUPPORTED ? "Not Supported" : "Unknown Error";
}
NVML_API nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = SIMCUDA_CUDA_VERSION;
  return NVML_SUCCESS;
}
NVML_API nvmlSystemGetCudaDriverVersion(int* version) { return nvmlSystemGetCudaDriverVersion_v2(version); }
NVML_API nvmlSystemGetDriverVersion(char* text, unsigned room) {
  snprintf(text, room, "550.54.14");
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetCount_v2(unsigned* count) {
  *count = device_count();
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  if (index >= device_count()) return NVML_ERROR_INVALID_ARGUMENT;
  *device = handle_of(index);
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetHandleByPciBusId_v2(const char* text, nvmlDevice_t* device) {
  unsigned domain, bus;
  if (sscanf(text, "%x:%x", &domain, &bus) != 2 || bus < 0x10 || bus - 0x10 >= device_count()) return NVML_ERROR_NOT_FOUND;
  *device = handle_of(bus - 0x10);
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned room) {
  DEVICE(device);
  write_uuid(number_of(device), text, room);
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  for (unsigned i = 0; i < device_count(); i++) {
    char text[80];
    write_uuid(i, text, sizeof text);
    if (strcmp(text, uuid)) continue;
    *device = handle_of(i);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
NVML_API nvmlDeviceGetIndex(nvmlDevice_t device, unsigned* index) {
  DEVICE(device);
  *index = number_of(device);
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned room) {
  DEVICE(device);
  snprintf(text, room, "NVIDIA H100 80GB HBM3");
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  DEVICE(device);
  *major = 9, *minor = 0;
  if (const char* arch = getenv("SIMCUDA_ARCH")) sscanf(arch, "%d.%d", major, minor);
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* info) {  // of all processes: not known, so a constant
  DEVICE(device);
  info->total = memory();
  info->used = info->total / 16;
  info->free = info->total - info->used;
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* rates) {
  DEVICE(device);
  rates->gpu = rates->memory = 1;
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t, unsigned* celsius) {
  DEVICE(device);
  *celsius = 35;
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts) {
  DEVICE(device);
  *milliwatts = 70000;
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t, unsigned* mhz) {
  DEVICE(device);
  *mhz = 1980;
  return NVML_SUCCESS;
}
NVML_API nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count, nvmlProcessInfo_t*) {
  DEVICE(device);
  *count = 0;
  return NVML_SUCCESS;
}
