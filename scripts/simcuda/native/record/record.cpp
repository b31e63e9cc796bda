// On a real GPU: in front of NVIDIA's runtime, writes the ledger of what a program asks of it, and passes every call on. Of
// the driver only launches of kernels that PyTorch compiles itself: it links to them. What NVIDIA's libraries ask of the
// driver is not seen, as on the simulated device, where they compute nothing.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "runtime/addresses.h"
#include "runtime/entries.h"
#include "runtime/ledger.h"

namespace sim {

std::recursive_mutex& world() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

}  // namespace sim

namespace {

using namespace sim;

template <class F>
F* real(const char* name) {
  auto* found = (F*)dlsym(RTLD_NEXT, name);
  if (!found) {
    fprintf(stderr, "simcuda record: no %s behind this library\n", name);
    abort();
  }
  return found;
}
#define REAL(name) (*real<decltype(name)>(#name))

// The driver is no library of the global scope: who calls these has loaded it.
template <class F>
F* driver(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  auto* found = library ? (F*)dlsym(library, name) : nullptr;
  if (!found) {
    fprintf(stderr, "simcuda record: no %s in libcuda.so.1\n", name);
    abort();
  }
  return found;
}
#define DRIVER(name) (*driver<decltype(name)>(#name))

struct Registered {
  const char* symbol;
  const void* image;
};
template <class K, class V>
std::unordered_map<K, V>& table() {
  static auto* all = new std::unordered_map<K, V>;
  return *all;
}
auto& images() { return table<void**, const void*>(); }
auto& registered() { return table<const void*, Registered>(); }
auto& kernels() { return table<std::string, Kernel>(); }
auto& functions() { return table<CUfunction, std::string>(); }
struct Made {
  int device;
  unsigned flags;
};
auto& streams() { return table<cudaStream_t, Made>(); }
auto& events() { return table<cudaEvent_t, ledger::StreamName>(); }  // -> where it was recorded last
auto& steps() { return table<cudaGraphExec_t, size_t>(); }

int architecture() {
  static int value = [] {
    int device = 0, major = 0, minor = 0;
    REAL(cudaGetDevice)(&device);
    REAL(cudaDeviceGetAttribute)(&major, cudaDevAttrComputeCapabilityMajor, device);
    REAL(cudaDeviceGetAttribute)(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return major * 10 + minor;
  }();
  return value;
}

int current_device() {
  int device = 0;
  REAL(cudaGetDevice)(&device);
  return device;
}

// A handle may be used again for another stream after the first is gone; its number in the ledger is then the first's.
CUstream_st recorded_stream(cudaStream_t handle) {
  CUstream_st stream{};
  stream.is_null = !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
  stream.id = (unsigned long long)handle;
  auto made = streams().find(handle);
  const Made known = made == streams().end() ? Made{current_device(), cudaStreamNonBlocking} : made->second;
  stream.device = known.device, stream.flags = known.flags;
  return stream;
}

cudaError_t noted(cudaError_t result, const char* what, void** at, size_t size, Memory kind) {
  std::lock_guard<std::recursive_mutex> lock(world());
  if (result == cudaSuccess && at && *at) {
    const Allocation& made = addresses().add((char*)*at, size, current_device(), kind);
    note_allocation(what, size, made.on_device() ? made.device : 0);
  }
  return result;
}
void forget(const char* what, void* at) {
  std::lock_guard<std::recursive_mutex> lock(world());
  Allocation* a = at ? addresses().find(at) : nullptr;
  if (!a || a->base != at) return;
  note_allocation(what, a->size, a->on_device() ? a->device : 0);
  addresses().remove(a->base);
}

void launched(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  auto found = registered().find(function);
  if (found == registered().end()) return;
  Kernel& kernel = kernels()[found->second.symbol];
  if (!kernel.looked) {
    kernel.looked = true;
    kernel.symbol = found->second.symbol;
    kernel.name = normalised(kernel.symbol);
    kernel.image = found->second.image;
    if (kernel.image) kernel.arguments = image_of(kernel.image, kernel.symbol, architecture()).arguments;
  }
  note_launch(kernel, grid, block, shared, recorded_stream(handle), arguments);
}
void copied(void* to, const void* from, size_t size, cudaStream_t handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  if (size) note_copy(recorded_stream(handle), to, from, size, 1);
}
void set(void* to, int value, size_t size, cudaStream_t handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  if (size) note_set(recorded_stream(handle), to, value, size);
}
void ordered(const char* what, cudaStream_t handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  note_order(what, recorded_stream(handle).name());
}
void recorded(cudaEvent_t event, cudaStream_t handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  note_order("record", events()[event] = recorded_stream(handle).name());
}
void created(cudaError_t result, const cudaStream_t* out, unsigned flags) {
  std::lock_guard<std::recursive_mutex> lock(world());
  if (result == cudaSuccess) streams()[*out] = {current_device(), flags};
}

}  // namespace

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
}

SIM_API void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {
    int magic, version;
    const void* data;
  };
  void** handle = REAL(__cudaRegisterFatBinary)(wrapper);
  std::lock_guard<std::recursive_mutex> lock(world());
  images()[handle] = ((Wrapper*)wrapper)->data;
  return handle;
}
SIM_API void __cudaRegisterFunction(void** image, const char* function, char* host, const char* symbol, int limit, uint3* a,
                                    uint3* b, dim3* c, dim3* d, int* e) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    auto found = images().find(image);
    registered()[function] = {symbol, found == images().end() ? nullptr : found->second};
  }
  REAL(__cudaRegisterFunction)(image, function, host, symbol, limit, a, b, c, d, e);
}

SIM_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                     cudaStream_t stream) {
  launched(function, grid, block, arguments, shared, stream);
  return REAL(cudaLaunchKernel)(function, grid, block, arguments, shared, stream);
}
SIM_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                                cudaStream_t stream) {
  launched(function, grid, block, arguments, shared, stream);
  return REAL(cudaLaunchCooperativeKernel)(function, grid, block, arguments, shared, stream);
}
SIM_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void** arguments) {
  launched(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
  return REAL(cudaLaunchKernelExC)(c, function, arguments);
}

SIM_API CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  CUresult result = DRIVER(cuModuleGetFunction)(out, module, name);
  std::lock_guard<std::recursive_mutex> lock(world());
  if (result == CUDA_SUCCESS) functions()[*out] = name;
  return result;
}
SIM_API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                unsigned bz, unsigned shared, CUstream stream, void** arguments, void** extra) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    auto found = functions().find(function);
    if (found != functions().end()) {
      Kernel kernel{};
      kernel.symbol = found->second;
      kernel.name = normalised(kernel.symbol);
      note_launch(kernel, dim3(gx, gy, gz), dim3(bx, by, bz), shared, recorded_stream(stream), nullptr);
    }
  }
  return DRIVER(cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

SIM_API cudaError_t cudaMalloc(void** out, size_t size) {
  return noted(REAL(cudaMalloc)(out, size), "malloc", out, size, Memory::device);
}
SIM_API cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t stream) {
  return noted(REAL(cudaMallocAsync)(out, size, stream), "malloc async", out, size, Memory::pooled);
}
SIM_API cudaError_t cudaHostAlloc(void** out, size_t size, unsigned flags) {
  return noted(REAL(cudaHostAlloc)(out, size, flags), "host alloc", out, size, Memory::pinned);
}
SIM_API cudaError_t cudaHostRegister(void* at, size_t size, unsigned flags) {
  void* registered = at;
  return noted(REAL(cudaHostRegister)(at, size, flags), "host register", &registered, size, Memory::registered);
}
SIM_API cudaError_t cudaHostUnregister(void* at) {
  forget("host unregister", at);
  return REAL(cudaHostUnregister)(at);
}
SIM_API cudaError_t cudaFree(void* at) {
  forget("free", at);
  return REAL(cudaFree)(at);
}
SIM_API cudaError_t cudaFreeAsync(void* at, cudaStream_t stream) {
  forget("free async", at);
  return REAL(cudaFreeAsync)(at, stream);
}
SIM_API cudaError_t cudaFreeHost(void* at) {
  forget("host free", at);
  return REAL(cudaFreeHost)(at);
}

SIM_API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  copied(to, from, size, nullptr);
  return REAL(cudaMemcpy)(to, from, size, kind);
}
SIM_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  copied(to, from, size, stream);
  return REAL(cudaMemcpyAsync)(to, from, size, kind, stream);
}
SIM_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t size,
                                        cudaStream_t stream) {
  copied(to, from, size, stream);
  return REAL(cudaMemcpyPeerAsync)(to, to_device, from, from_device, size, stream);
}
SIM_API cudaError_t cudaMemset(void* to, int value, size_t size) {
  set(to, value, size, nullptr);
  return REAL(cudaMemset)(to, value, size);
}
SIM_API cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  set(to, value, size, stream);
  return REAL(cudaMemsetAsync)(to, value, size, stream);
}

SIM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  recorded(event, stream);
  return REAL(cudaEventRecord)(event, stream);
}
SIM_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  recorded(event, stream);
  return REAL(cudaEventRecordWithFlags)(event, stream, flags);
}
SIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    note_wait(recorded_stream(stream), events()[event]);
  }
  return REAL(cudaStreamWaitEvent)(stream, event, flags);
}
SIM_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    events().erase(event);
  }
  return REAL(cudaEventDestroy)(event);
}
SIM_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    note_order("sync event", events()[event]);
  }
  return REAL(cudaEventSynchronize)(event);
}
SIM_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ordered("sync stream", stream);
  return REAL(cudaStreamSynchronize)(stream);
}
SIM_API cudaError_t cudaDeviceSynchronize() {
  ordered("sync device", nullptr);
  return REAL(cudaDeviceSynchronize)();
}

SIM_API cudaError_t cudaStreamCreate(cudaStream_t* out) {
  cudaError_t result = REAL(cudaStreamCreate)(out);
  created(result, out, cudaStreamDefault);
  return result;
}
SIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  cudaError_t result = REAL(cudaStreamCreateWithFlags)(out, flags);
  created(result, out, flags);
  return result;
}
SIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  cudaError_t result = REAL(cudaStreamCreateWithPriority)(out, flags, priority);
  created(result, out, flags);
  return result;
}

static cudaError_t instantiated(cudaError_t result, cudaGraphExec_t* out, cudaGraph_t graph) {
  size_t count = 0;
  if (result == cudaSuccess && REAL(cudaGraphGetNodes)(graph, nullptr, &count) == cudaSuccess) {
    std::lock_guard<std::recursive_mutex> lock(world());
    steps()[*out] = count;
  }
  return result;
}
#if CUDART_VERSION >= 12000
SIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return instantiated(REAL(cudaGraphInstantiate)(out, graph, flags), out, graph);
}
#else
SIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, cudaGraphNode_t* wrong, char* log, size_t room) {
  return instantiated(REAL(cudaGraphInstantiate)(out, graph, wrong, log, room), out, graph);
}
#endif
SIM_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long flags) {
  return instantiated(REAL(cudaGraphInstantiateWithFlags)(out, graph, flags), out, graph);
}
SIM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t program, cudaStream_t stream) {
  {
    std::lock_guard<std::recursive_mutex> lock(world());
    note_graph(recorded_stream(stream), steps()[program]);
  }
  return REAL(cudaGraphLaunch)(program, stream);
}
