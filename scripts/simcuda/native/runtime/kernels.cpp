#include "kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "activity.h"
#include "addresses.h"
#include "device.h"
#include "entries.h"

namespace sim {
namespace {

struct Variable {
  size_t size;
  void* at[kMaxDevices];
};
struct Image {  // what __cudaRegisterFatBinary returns a pointer to
  const void* fatbin;
};
struct Registered {
  const char* symbol;
  const Image* image;
};
std::unordered_map<const void*, Registered>& registered() {
  static auto* all = new std::unordered_map<const void*, Registered>(1 << 16);
  return *all;
}
std::unordered_map<const void*, Kernel>& used() {
  static auto* all = new std::unordered_map<const void*, Kernel>;
  return *all;
}
std::unordered_map<const void*, Variable>& variables() {
  static auto* all = new std::unordered_map<const void*, Variable>;
  return *all;
}
struct Configuration {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
thread_local std::vector<Configuration>* configurations;

Kernel* kernel_of(const void* function) {
  auto it = used().find(function);
  if (it != used().end()) return &it->second;
  auto found = registered().find(function);
  if (found == registered().end()) return nullptr;
  Kernel kernel;
  kernel.symbol = found->second.symbol;
  kernel.name = normalised(kernel.symbol);
  kernel.image = found->second.image ? found->second.image->fatbin : nullptr;
  return &(used()[function] = kernel);
}
const KernelImage none;
const KernelImage& code_of(Kernel* kernel) {
  if (!kernel->code)
    kernel->code =
        kernel->image ? &image_of(kernel->image, kernel->symbol, options().major * 10 + options().minor) : &none;
  return *kernel->code;
}
const KernelImage& code_behind(const void* function) {
  Kernel* kernel = kernel_of(function);
  return kernel ? code_of(kernel) : none;
}

constexpr size_t kSharedAtFirst = 49152;  // bytes of shared memory that a block has without cudaFuncSetAttribute
size_t dynamic_at_first(const KernelImage& image) { return kSharedAtFirst - std::min<size_t>(image.shared, kSharedAtFirst); }

// How many dynamic bytes of shared memory a launch may have: all that there are on AMD's devices, and of a module, whose
// attributes nobody keeps.
size_t most_dynamic(const Kernel& kernel, const KernelImage& image) {
  const size_t all = limits().shared - std::min<size_t>(image.shared, limits().shared);
  if (!kernel.image || is_bundle(kernel.image)) return all;
  const size_t chosen = kernel.dynamic[current_device()];
  return std::min(all, chosen ? chosen : dynamic_at_first(image));
}

// How many blocks of so many warps have registers on a multiprocessor.
int blocks_by_registers(int warps, const KernelImage& kernel) {
  const size_t registers = (kernel.registers * 32 + 255) & ~255u;
  return registers ? int(16384 / registers * 4) / warps : 32;
}

}  // namespace

cudaError_t launch(Kernel& kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t handle) {
  STREAM(stream, handle);
  if (stream->device != current_device()) FAIL(cudaErrorInvalidResourceHandle);
  uint64_t threads = uint64_t(block.x) * block.y * block.z;
  if (!threads || threads > 1024 || block.z > limits().depth || !grid.x || !grid.y || !grid.z || grid.x > 2147483647u ||
      grid.y > 65535 || grid.z > 65535)
    FAIL(cudaErrorInvalidConfiguration);
  const KernelImage& image = code_of(&kernel);
  if (!kernel.looked) {
    kernel.looked = true;
    kernel.arguments = image.arguments;
    if (kernel.image) kernel.refusal = refusal_of(kernel.image, kernel.symbol, options().major * 10 + options().minor);
    kernel.unset = unset_of(kernel.name);
    if (kernel.refusal == cudaErrorInvalidDeviceFunction) {
      fprintf(stderr, "simcuda: launched, and in no code object: %s\n", kernel.symbol.c_str());
      not_supported(kernel.symbol.c_str());
    }
  }
  if (kernel.refusal) FAIL(kernel.refusal);
  if (shared > most_dynamic(kernel, image)) FAIL(cudaErrorInvalidValue);
  if (!blocks_by_registers(int(threads + 31) / 32, image)) FAIL(cudaErrorLaunchOutOfResources);
  note_launch(kernel, grid, block, shared, *stream, arguments);
  uint64_t cost = 2000;
  // torch.cuda._sleep(cycles): the one kernel whose time is known, since its argument is its time
  if (arguments && kernel.symbol.find("spin_kernel") != std::string::npos)
    cost = uint64_t(double(*(const int64_t*)arguments[0]) / 1.98);
  uint64_t begin = horizon(*stream);
  CHECK(enqueue(stream, cudaGraphNodeTypeKernel, cost, nullptr, kernel.name));
  simcuda_work told = work_of('K');
  told.name = kernel.symbol.c_str();
  told.grid[0] = grid.x, told.grid[1] = grid.y, told.grid[2] = grid.z;
  told.block[0] = block.x, told.block[1] = block.y, told.block[2] = block.z;
  told.shared = unsigned(shared);
  tell(told, *stream, begin, cost);
  return cudaSuccess;
}

// Of compute capability 9.0: 64 warps, 32 blocks, 228 KB of shared memory, of which a block takes 1 KB for the system, and
// four times 16,384 registers. Units of allocation as in CUDA's cuda_occupancy.h. An H100 gave the same numbers.
int occupancy(int block, size_t shared, const KernelImage& kernel) {
  if (block <= 0) return 0;
  const int warps = (block + 31) / 32;
  int blocks = std::min(32, 64 / warps);
  const size_t bytes = (shared + kernel.shared + 1024 + 127) & ~size_t(127);
  return std::min({blocks, int(233472 / bytes), blocks_by_registers(warps, kernel)});
}

}  // namespace sim

using namespace sim;

// ---- what nvcc's host code calls when a library is loaded ----
SIM_API void** __cudaRegisterFatBinary(void* wrapper) {
  struct Wrapper {  // fatBinC_Wrapper_t: magic, version, data, filename or prelinked
    int magic, version;
    const void* data;
  };
  return (void**)new Image{((Wrapper*)wrapper)->data};
}
SIM_API void __cudaRegisterFatBinaryEnd(void**) {}
SIM_API void __cudaUnregisterFatBinary(void**) {}
SIM_API void __cudaRegisterFunction(void** image, const char* function, char*, const char* symbol, int, uint3*, uint3*,
                                    dim3*, dim3*, int*) {
  std::lock_guard<std::recursive_mutex> lock(world());
  registered()[function] = {symbol, (const Image*)image};
}
SIM_API void __cudaRegisterVar(void**, char* variable, char*, const char*, int, size_t size, int, int) {
  std::lock_guard<std::recursive_mutex> lock(world());
  variables()[variable] = Variable{size, {}};
}
SIM_API void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int) {
  not_supported("__cudaRegisterManagedVar");
}
SIM_API char __cudaInitModule(void**) { return 1; }
SIM_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  if (!configurations) configurations = new std::vector<Configuration>;
  configurations->push_back({grid, block, shared, stream});
  return 0;
}
SIM_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (!configurations || configurations->empty()) return cudaErrorMissingConfiguration;
  Configuration c = configurations->back();
  configurations->pop_back();
  *grid = c.grid, *block = c.block, *shared = c.shared, *(void**)stream = c.stream;
  return cudaSuccess;
}
SIM_API unsigned long long simcuda_kernel_count(void) {
  std::lock_guard<std::recursive_mutex> lock(world());
  return registered().size();
}

// ---- launches ----
SIM_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                     cudaStream_t stream) {
  CALL;
  ENTER;
  ANY_DEVICE;
  Kernel* kernel = kernel_of(function);
  if (!kernel) FAIL(cudaErrorInvalidDeviceFunction);
  return launch(*kernel, grid, block, arguments, shared, stream);
}
SIM_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                                cudaStream_t stream) {
  CALL;
  ENTER;
  ANY_DEVICE;
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  const int most = occupancy(int(block.x * block.y * block.z), shared, code_behind(function));
  if (blocks > uint64_t(most) * uint64_t(attribute(current_device(), cudaDevAttrMultiProcessorCount)))
    FAIL(cudaErrorCooperativeLaunchTooLarge);
  return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}
#if CUDART_VERSION >= 11080
SIM_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void** arguments) {
  CALL;
  return cudaLaunchKernel(function, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
}
#endif
// A kernel of a module, which only has a name.
SIM_API int simcuda_launch(const char* symbol, const unsigned grid[3], const unsigned block[3], unsigned shared, void* stream,
                           void** arguments) {
  ENTER;
  Kernel kernel;
  kernel.symbol = symbol;
  kernel.name = normalised(symbol);
  kernel.image = nullptr;
  return launch(kernel, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, arguments, shared, (cudaStream_t)stream);
}

// ---- what is known of a kernel without running it ----
SIM_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  ENTER;
  CHECK(activate(current_device()));
  if (!registered().count(function)) FAIL(cudaErrorInvalidDeviceFunction);
  memset(out, 0, sizeof *out);
  out->binaryVersion = out->ptxVersion = options().major * 10 + options().minor;
  out->maxThreadsPerBlock = 1024;
  const KernelImage& image = code_behind(function);
  out->numRegs = image.registers ? int(image.registers) : 32;
  out->sharedSizeBytes = image.shared;
  const size_t chosen = kernel_of(function)->dynamic[current_device()];
  out->maxDynamicSharedSizeBytes = int(chosen ? chosen : dynamic_at_first(image));
  return cudaSuccess;
}
SIM_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  ENTER;
  ANY_DEVICE;
  Kernel* kernel = kernel_of(function);
  if (!kernel) FAIL(cudaErrorInvalidDeviceFunction);
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || size_t(value) + code_of(kernel).shared > limits().shared) FAIL(cudaErrorInvalidValue);
  kernel->dynamic[current_device()] = size_t(value);
  return cudaSuccess;
}
SIM_API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
SIM_API cudaError_t cudaFuncSetSharedMemConfig(const void*, cudaSharedMemConfig) { return cudaSuccess; }
SIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int block,
                                                                          size_t shared, unsigned) {
  ENTER;
  if (!registered().count(function)) FAIL(cudaErrorInvalidDeviceFunction);
  *blocks = occupancy(block, shared, code_behind(function));
  return cudaSuccess;
}
SIM_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared, 0);
}
SIM_API int simcuda_occupancy(int block, size_t shared) { return occupancy(block, shared); }

// ---- device variables ----
SIM_API cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  ENTER;
  auto it = variables().find(symbol);
  if (it == variables().end()) FAIL(cudaErrorInvalidSymbol);
  CHECK(activate(current_device()));
  void*& at = it->second.at[current_device()];
  size_t offset, taken;
  Arena& arena = device(current_device()).memory;
  if (!at) {
    if (!arena.allocate(it->second.size, &offset, &taken)) FAIL(cudaErrorMemoryAllocation);
    at = addresses().add(arena.at(offset), taken, current_device(), Memory::device).base;
  }
  *out = at;
  return cudaSuccess;
}
SIM_API cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  ENTER;
  auto it = variables().find(symbol);
  if (it == variables().end()) FAIL(cudaErrorInvalidSymbol);
  *size = it->second.size;
  return cudaSuccess;
}
SIM_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t size, size_t offset,
                                            cudaMemcpyKind kind, cudaStream_t stream) {
  void* to;
  if (cudaError_t error = cudaGetSymbolAddress(&to, symbol)) return error;
  return cudaMemcpyAsync((char*)to + offset, from, size, kind, stream);
}
SIM_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyToSymbolAsync(symbol, from, size, offset, kind, nullptr);
}
SIM_API cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind,
                                              cudaStream_t stream) {
  void* from;
  if (cudaError_t error = cudaGetSymbolAddress(&from, symbol)) return error;
  return cudaMemcpyAsync(to, (char*)from + offset, size, kind, stream);
}
SIM_API cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t size, size_t offset, cudaMemcpyKind kind) {
  return cudaMemcpyFromSymbolAsync(to, symbol, size, offset, kind, nullptr);
}
