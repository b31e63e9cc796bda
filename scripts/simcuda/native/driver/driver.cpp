// The driver's functions that PyTorch reaches: by linking (libcaffe2_nvrtc), by dlsym, by cudaGetDriverEntryPoint.
// State is the runtime's. cuda.h renames most of them to their newest version.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../interface.h"
#include "../libraries/record.h"

#define DRIVER_API extern "C" __attribute__((visibility("default"))) CUresult

struct CUctx_st {
  int device;
};
struct CUmod_st {};
struct CUfunc_st {
  std::string symbol;
};
struct CUlinkState_st {};

namespace {

CUctx_st contexts[16];

CUresult result(int error) {  // the codes of runtime and driver are the same numbers, where the driver has them
  if (error) cudaGetLastError();
  switch (error) {
    case cudaErrorInvalidConfiguration: return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidDeviceFunction: return CUDA_ERROR_INVALID_HANDLE;
    default: return CUresult(error);
  }
}
CUcontext context(int device) {
  contexts[device].device = device;
  return &contexts[device];
}
thread_local std::vector<int> below;  // devices whose contexts this thread's current one was pushed onto
bool valid(CUdevice device) { return device >= 0 && device < simcuda_device_count(); }

}  // namespace

// ---- devices ----
DRIVER_API cuInit(unsigned) {
  int count;
  return result(cudaGetDeviceCount(&count));
}
DRIVER_API cuDriverGetVersion(int* version) { return result(cudaDriverGetVersion(version)); }
DRIVER_API cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(cudaError_t(error));
  return CUDA_SUCCESS;
}
DRIVER_API cuGetErrorName(CUresult error, const char** text) {
  static thread_local std::string name;  // the driver spells it CUDA_ERROR_...; only the number is sure
  name = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : std::string("CUDA_ERROR ") + cudaGetErrorName(cudaError_t(error));
  *text = name.c_str();
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetCount(int* count) {
  if (!simcuda_driver_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  *count = simcuda_device_count();
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGet(CUdevice* device, int ordinal) {
  if (!valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetName(char* name, int room, CUdevice device) {
  cudaDeviceProp properties;
  if (int error = cudaGetDeviceProperties(&properties, device)) return result(error);
  snprintf(name, size_t(room), "%s", properties.name);
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp properties;
  if (int error = cudaGetDeviceProperties(&properties, device)) return result(error);
  memcpy(uuid, &properties.uuid, sizeof *uuid);
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = simcuda_attribute(attribute, device);
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceTotalMem(size_t* size, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *size = simcuda_device_memory();
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *major = simcuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  *minor = simcuda_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetPCIBusId(char* text, int room, CUdevice device) {
  return result(cudaDeviceGetPCIBusId(text, room, device));
}
DRIVER_API cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) { return result(cudaDeviceCanAccessPeer(can, a, b)); }

// ---- contexts: each device has its primary one ----
DRIVER_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = simcuda_device_flags(device);
  *active = simcuda_context_active(device);
  return CUDA_SUCCESS;
}
DRIVER_API cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  if (!valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = context(device);
  return result(simcuda_context_retain(device));
}
DRIVER_API cuDevicePrimaryCtxRelease(CUdevice device) { return valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE; }
DRIVER_API cuCtxGetCurrent(CUcontext* out) {
  int device = simcuda_current_device();
  *out = simcuda_context_active(device) ? context(device) : nullptr;
  return CUDA_SUCCESS;
}
DRIVER_API cuCtxSetCurrent(CUcontext c) { return c ? result(cudaSetDevice(c->device)) : CUDA_SUCCESS; }
DRIVER_API cuCtxPushCurrent(CUcontext c) {
  const int device = simcuda_current_device();
  const CUresult error = cuCtxSetCurrent(c);
  if (!error) below.push_back(device);
  return error;
}
DRIVER_API cuCtxPopCurrent(CUcontext* out) {
  CUcontext popped;
  cuCtxGetCurrent(&popped);
  if (!popped) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = popped;
  if (below.empty()) return CUDA_SUCCESS;  // the runtime always has a device
  simcuda_choose_device(below.back());
  below.pop_back();
  return CUDA_SUCCESS;
}
DRIVER_API cuCtxGetDevice(CUdevice* device) {
  *device = simcuda_current_device();
  return CUDA_SUCCESS;
}
DRIVER_API cuCtxSynchronize() { return result(cudaDeviceSynchronize()); }
DRIVER_API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return result(cudaDeviceGetStreamPriorityRange(least, greatest));
}

// ---- memory ----
DRIVER_API cuMemGetInfo(size_t* free, size_t* total) { return result(cudaMemGetInfo(free, total)); }
DRIVER_API cuMemAlloc(CUdeviceptr* out, size_t size) { return result(cudaMalloc((void**)out, size)); }
DRIVER_API cuMemFree(CUdeviceptr address) { return result(cudaFree((void*)address)); }
DRIVER_API cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  return result(cudaMemcpy(to, (void*)from, size, cudaMemcpyDeviceToHost));
}
DRIVER_API cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  return result(cudaMemcpy((void*)to, from, size, cudaMemcpyHostToDevice));
}
namespace {
struct Fill32 {
  unsigned* to;
  unsigned value;
  size_t count;
};
CUresult fill32(const char* name, CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  simlib::Call call(name);
  call << (const void*)to << value << count << stream;
  void* base;
  size_t size;
  int device;
  if (!simcuda_address((void*)to, &base, &size, &device) || to + count * 4 > CUdeviceptr(base) + size)
    return CUDA_ERROR_INVALID_VALUE;
  auto run = [](void* p) {
    auto* f = (Fill32*)p;
    for (size_t i = 0; i < f->count; i++) f->to[i] = f->value;
  };
  return result(simcuda_enqueue(stream, run, [](void* p) { delete (Fill32*)p; }, new Fill32{(unsigned*)to, value, count}, "set"));
}
}  // namespace
DRIVER_API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill32("cuMemsetD32Async", to, value, count, stream);
}
DRIVER_API cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned) {
  return fill32("cuStreamWriteValue32", to, value, 1, stream);
}
DRIVER_API cuStreamSynchronize(CUstream stream) { return result(cudaStreamSynchronize(stream)); }
DRIVER_API cuPointerGetAttribute(void* out, CUpointer_attribute which, CUdeviceptr address) {
  void* base;
  size_t size;
  int device, kind = simcuda_address((void*)address, &base, &size, &device);
  if (!kind) return CUDA_ERROR_INVALID_VALUE;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext*)out = context(device); break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned*)out = kind == 2 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int*)out = device; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr*)out = address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr*)out = CUdeviceptr(base); break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t*)out = size; break;
    default: return CUresult(simcuda_not_supported("cuPointerGetAttribute"));
  }
  return CUDA_SUCCESS;
}
DRIVER_API cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  void* start;
  size_t length;
  int device;
  if (!simcuda_address((void*)address, &start, &length, &device)) return CUDA_ERROR_INVALID_VALUE;
  if (base) *base = CUdeviceptr(start);
  if (size) *size = length;
  return CUDA_SUCCESS;
}

// ---- modules: any image loads, a function is its name ----
DRIVER_API cuModuleLoad(CUmodule* out, const char*) {
  *out = new CUmod_st;
  return CUDA_SUCCESS;
}
DRIVER_API cuModuleLoadData(CUmodule* out, const void*) {
  *out = new CUmod_st;
  return CUDA_SUCCESS;
}
DRIVER_API cuModuleLoadDataEx(CUmodule* out, const void*, unsigned, CUjit_option*, void**) {
  *out = new CUmod_st;
  return CUDA_SUCCESS;
}
DRIVER_API cuModuleUnload(CUmodule module) {
  delete module;
  return CUDA_SUCCESS;
}
DRIVER_API cuModuleGetFunction(CUfunction* out, CUmodule, const char* symbol) {
  *out = new CUfunc_st{symbol};
  return CUDA_SUCCESS;
}
DRIVER_API cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction) {
  *value = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : which == CU_FUNC_ATTRIBUTE_NUM_REGS ? 32 : 0;
  return CUDA_SUCCESS;
}
DRIVER_API cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
DRIVER_API cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
DRIVER_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int block, size_t shared) {
  *blocks = simcuda_occupancy(block, shared);
  return CUDA_SUCCESS;
}
DRIVER_API cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, CUstream stream, void** arguments, void**) {
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
  return result(simcuda_launch(f->symbol.c_str(), grid, block, shared, stream, arguments));
}
DRIVER_API cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                     unsigned bz, unsigned shared, CUstream stream, void** arguments) {
  return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, nullptr);
}

// ---- functions by name ----
#undef cuGetProcAddress
static bool by_name(const char* name, void** out) {
  *out = nullptr;
  for (const char* version : {"_v3", "_v2", ""}) {
    *out = dlsym(RTLD_DEFAULT, (std::string(name) + version).c_str());
    if (*out) break;
  }
  return *out;
}
#if CUDA_VERSION >= 12000
DRIVER_API cuGetProcAddress_v2(const char* name, void** out, int, cuuint64_t, CUdriverProcAddressQueryResult* status) {
  bool found = by_name(name, out);
  if (status) *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
#else
DRIVER_API cuGetProcAddress(const char* name, void** out, int, cuuint64_t) {
  return by_name(name, out) ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
#endif
