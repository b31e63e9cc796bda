// Stands between torch and the CUDA runtime, and does on demand what a faulty torch would do. A kernel is known by a part
// of its name.
#include <dlfcn.h>

#include <cstring>
#include <set>
#include <string>

struct Dim {
  unsigned x, y, z;
};

static std::string fault;
static std::set<const void*> softmax, scan;

template <typename F>
static F* real(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

extern "C" void planted(const char* name) {
  fault = name;
}

extern "C" void __cudaRegisterFunction(
    void** handle, const char* host, char* device, const char* name, int limit, void* a, void* b, void* c, void* d, int* e) {
  if (strstr(name, "softmax_warp_forward"))
    softmax.insert(host);
  if (strstr(name, "tensor_kernel_scan"))
    scan.insert(host);
  static auto* next = real<decltype(__cudaRegisterFunction)>("__cudaRegisterFunction");
  next(handle, host, device, name, limit, a, b, c, d, e);
}

extern "C" int cudaLaunchKernel(
    const void* kernel, Dim grid, Dim block, void** arguments, size_t shared, void* stream) {
  if (fault == "grid" && softmax.count(kernel))
    ++grid.x;
  if (fault == "stream" && scan.count(kernel))
    stream = nullptr;
  static auto* next = real<decltype(cudaLaunchKernel)>("cudaLaunchKernel");
  return next(kernel, grid, block, arguments, shared, stream);
}

// What a guard of a device asks for.
extern "C" int cudaSetDevice(int device) {
  static auto* next = real<decltype(cudaSetDevice)>("cudaSetDevice");
  return fault == "guard" ? 0 : next(device);
}

extern "C" int cublasSetStream_v2(void* handle, void* stream) {
  static auto* next = real<decltype(cublasSetStream_v2)>("cublasSetStream_v2");
  return next(handle, fault == "handle" ? nullptr : stream);
}

extern "C" int cublasSetMathMode(void* handle, int mode) {
  static auto* next = real<decltype(cublasSetMathMode)>("cublasSetMathMode");
  return next(handle, fault == "mode" ? 0 : mode);
}

extern "C" int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  static auto* next = real<decltype(cudaStreamWaitEvent)>("cudaStreamWaitEvent");
  return fault == "wait" ? 0 : next(stream, event, flags);
}

extern "C" int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  static auto* next = real<decltype(cudaMemcpyAsync)>("cudaMemcpyAsync");
  return fault == "copy" ? 999 : next(to, from, size, kind, stream);  // cudaErrorUnknown
}

extern "C" int cudaMalloc(void** at, size_t size) {
  if (fault == "allocator" && size > (20u << 20))
    size += 2u << 20;
  static auto* next = real<decltype(cudaMalloc)>("cudaMalloc");
  return next(at, size);
}
