// HIP's runtime where it is not the simulated one under another name (hip.toml lists those that are): structures with other
// members, functions that CUDA has not. Includes HIP's headers alone, for both vendors' define the same words.
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "interface.h"

extern "C" {
// CUDA's, as far as they are asked here
int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream);
int cudaStreamSynchronize(void* stream);
int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, void* graph, void* nodes, size_t* count);
int cudaGraphInstantiateWithFlags(void* program, void* graph, unsigned long long flags);
struct PointerAttributes {
  int type, device;
  void *of_device, *of_host;
};
int cudaPointerGetAttributes(PointerAttributes* out, const void* address);
}

namespace {

constexpr char kArch[] = "gfx90a";

// What `--arch` says, where that is one of AMD's.
const char* architecture() {
  const char* chosen = getenv("SIMCUDA_ARCH");
  return chosen && !strncmp(chosen, "gfx", 3) && strspn(chosen + 3, "0123456789abcdef") > 2 ? chosen : kArch;
}

constexpr unsigned kThreads = 1024;      // of a block, in each direction
constexpr size_t kSharedMemory = 65536;  // of a block

// Before a device is counted: which of them a program sees is another variable's word. Blocks are an MI210's.
__attribute__((constructor)) void prepare_devices() {
  static const char* const names[] = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", nullptr};
  simcuda_visible_by(names);
  simcuda_limit_blocks(kThreads, kSharedMemory);
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

// The figures are those AMD publishes for an MI210.
API hipError_t hipGetDeviceProperties(hipDeviceProp_t* p, int number) {  // R0600 by the header's macro
  if (!p || number < 0 || number >= simcuda_device_count()) return hipErrorInvalidDevice;
  memset(p, 0, sizeof *p);
  const std::string name = architecture();
  const std::string digits = name.substr(3, name.find(':') - 3);  // of gfx90a: major 9, minor 0, stepping a
  p->major = atoi(digits.substr(0, digits.size() - 2).c_str());
  p->minor = int(strtol(digits.substr(digits.size() - 2, 1).c_str(), nullptr, 16));
  snprintf(p->name, sizeof p->name, "AMD Instinct MI210");
  snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s%s", name.c_str(), name == kArch ? ":sramecc+:xnack-" : "");
  const int physical = simcuda_physical(number);
  p->pciBusID = 0x10 + physical;
  p->uuid.bytes[3] = char(physical);
  p->totalGlobalMem = simcuda_device_memory();
  p->multiProcessorCount = 104;
  p->warpSize = p->major == 9 ? 64 : 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = p->maxThreadsDim[2] = kThreads;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;  // as the simulated runtime takes
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = p->sharedMemPerMultiprocessor = p->maxSharedMemoryPerMultiProcessor = kSharedMemory;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->totalConstMem = 2147483647;
  p->l2CacheSize = 8 << 20;
  p->clockRate = 1700000;
  p->memoryClockRate = 1600000;
  p->memoryBusWidth = 4096;
  p->canMapHostMemory = p->concurrentKernels = p->cooperativeLaunch = p->unifiedAddressing = p->managedMemory = 1;
  return hipSuccess;
}

API hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* address) {
  PointerAttributes found{};
  const int code = cudaPointerGetAttributes(&found, address);
  memset(out, 0, sizeof *out);
  out->type = hipMemoryType(found.type);
  out->device = found.device;
  out->devicePointer = found.of_device;
  out->hostPointer = found.of_host;
  return hipError_t(code);
}

API hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status, unsigned long long* id) {
  int found = 0;
  const int code = cudaStreamGetCaptureInfo_v2(stream, &found, id, nullptr, nullptr, nullptr);
  *status = hipStreamCaptureStatus(found);
  return hipError_t(code);
}

API int hipGetStreamDeviceId(hipStream_t stream) { return simcuda_stream_device(stream); }

API hipError_t hipMemcpyWithStream(void* to, const void* from, size_t size, hipMemcpyKind kind, hipStream_t stream) {
  const int code = cudaMemcpyAsync(to, from, size, kind, stream);
  return hipError_t(code ? code : cudaStreamSynchronize(stream));
}

API hipError_t hipGraphInstantiate(hipGraphExec_t* out, hipGraph_t graph, hipGraphNode_t*, char*, size_t) {
  return hipError_t(cudaGraphInstantiateWithFlags(out, graph, 0));
}

API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t, int block, size_t shared) {
  *blocks = simcuda_occupancy(block, shared);
  return hipSuccess;
}

API hipError_t hipDriverGetVersion(int* version) {
  *version = HIP_VERSION;
  return hipSuccess;
}
API hipError_t hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }
