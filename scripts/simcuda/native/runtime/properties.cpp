// What a device says of itself. The figures are those NVIDIA publishes for an H100 SXM5; the compute capability is chosen.
#include <cstdio>
#include <cstring>

#include "device.h"

namespace sim {
namespace {

void fill(cudaDeviceProp* p, int number) {
  memset(p, 0, sizeof *p);
  int physical = physical_of(number);
  snprintf(p->name, sizeof p->name, "NVIDIA H100 80GB HBM3");
  // the UUID: bytes 0 to 3 are the number, so that GPU-0000000N names device N
  p->uuid.bytes[3] = char(physical);
  for (int i = 4; i < 16; i++) p->uuid.bytes[i] = char(0x10 + i);
  p->totalGlobalMem = options().memory;
  p->major = options().major;
  p->minor = options().minor;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = int(limits().depth);
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = limits().shared;
  p->sharedMemPerMultiprocessor = 233472;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->totalConstMem = 65536;
  p->l2CacheSize = 50 << 20;
  p->persistingL2CacheMaxSize = 32768000;
  p->accessPolicyMaxWindowSize = 134213632;
  p->memPitch = 2147483647;
  p->textureAlignment = p->surfaceAlignment = 512;
  p->texturePitchAlignment = 32;
  p->maxTexture1D = 131072;
  p->clockRate = 1980000;
  p->memoryClockRate = 2619000;
  p->memoryBusWidth = 5120;
  p->singleToDoublePrecisionPerfRatio = 2;
  p->asyncEngineCount = 3;
  p->pciBusID = 0x10 + physical;
  p->deviceOverlap = p->concurrentKernels = p->ECCEnabled = p->canMapHostMemory = p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->managedMemory = p->pageableMemoryAccess = p->concurrentManagedAccess = p->computePreemptionSupported = 1;
  p->canUseHostPointerForRegisteredMem = 1;
  p->cooperativeLaunch = p->cooperativeMultiDeviceLaunch = 1;
#if CUDART_VERSION >= 12000
  p->hostRegisterSupported = p->memoryPoolsSupported = p->memoryPoolSupportedHandleTypes = 1;
  p->clusterLaunch = options().major >= 9;
  p->unifiedFunctionPointers = 1;
#endif
}

int attribute_of(const cudaDeviceProp& p, cudaDeviceAttr which) {
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX: return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY: return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ: return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX: return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY: return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ: return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock: return int(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return int(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return int(p.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock: return int(p.reservedSharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory: return int(p.totalConstMem);
    case cudaDevAttrWarpSize: return p.warpSize;
    case cudaDevAttrMaxPitch: return int(p.memPitch);
    case cudaDevAttrMaxRegistersPerBlock: return p.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor: return p.regsPerMultiprocessor;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrMultiProcessorCount: return p.multiProcessorCount;
    case cudaDevAttrClockRate: return p.clockRate;
    case cudaDevAttrMemoryClockRate: return p.memoryClockRate;
    case cudaDevAttrGlobalMemoryBusWidth: return p.memoryBusWidth;
    case cudaDevAttrL2CacheSize: return p.l2CacheSize;
    case cudaDevAttrMaxPersistingL2CacheSize: return p.persistingL2CacheMaxSize;
    case cudaDevAttrMaxAccessPolicyWindowSize: return p.accessPolicyMaxWindowSize;
    case cudaDevAttrTextureAlignment: case cudaDevAttrSurfaceAlignment: return int(p.textureAlignment);
    case cudaDevAttrTexturePitchAlignment: return int(p.texturePitchAlignment);
    case cudaDevAttrComputeCapabilityMajor: return p.major;
    case cudaDevAttrComputeCapabilityMinor: return p.minor;
    case cudaDevAttrAsyncEngineCount: return p.asyncEngineCount;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return p.singleToDoublePrecisionPerfRatio;
    case cudaDevAttrPciBusId: return p.pciBusID;
    case cudaDevAttrGpuOverlap: case cudaDevAttrCanMapHostMemory: case cudaDevAttrConcurrentKernels:
    case cudaDevAttrEccEnabled: case cudaDevAttrUnifiedAddressing: case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported: case cudaDevAttrLocalL1CacheSupported: case cudaDevAttrManagedMemory:
    case cudaDevAttrPageableMemoryAccess: case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrComputePreemptionSupported: case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrCooperativeLaunch: case cudaDevAttrCooperativeMultiDeviceLaunch:
    case cudaDevAttrHostRegisterSupported: case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrMemoryPoolSupportedHandleTypes: return 1;
    default: break;
  }
  switch (int(which)) {  // those that only the driver's enum names, with its numbers
    case 102: return 1;  // virtual memory management
    case 103: return 1;  // exported as a file descriptor
    case 120: return p.major >= 9;  // cluster launch
    default: return 0;
  }
}

}  // namespace

BlockLimits& limits() {
  static BlockLimits own;
  return own;
}

int attribute(int number, cudaDeviceAttr which) {
  cudaDeviceProp p;
  fill(&p, number);
  return attribute_of(p, which);
}

}  // namespace sim

using namespace sim;

SIM_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {  // _v2 by the header's macro from CUDA 12 on
  ENTER;
  VALID_DEVICE(number);
  fill(properties, number);
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int number) {
  ENTER;
  VALID_DEVICE(number);
  *value = attribute(number, which);
  return cudaSuccess;
}
SIM_API void simcuda_limit_blocks(unsigned depth, size_t shared) { limits() = {depth, shared}; }
SIM_API int simcuda_attribute(int which, int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return attribute(number, cudaDeviceAttr(which));
}
SIM_API cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int number) {
  ENTER;
  VALID_DEVICE(number);
  snprintf(text, size_t(room), "0000:%02X:00.0", 0x10 + physical_of(number));
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetByPCIBusId(int* number, const char* text) {
  ENTER;
  unsigned domain, bus;
  if (sscanf(text, "%x:%x", &domain, &bus) == 2)
    for (int i = 0; i < device_count(); i++)
      if (0x10 + physical_of(i) == int(bus)) {
        *number = i;
        return cudaSuccess;
      }
  FAIL(cudaErrorInvalidDevice);
}
SIM_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
SIM_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
