// Kernels: known by the name and the fat binary that a library registers them with. None is ever executed.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "streams.h"

namespace sim {

struct Argument {
  unsigned offset, size;  // bytes
};
struct KernelImage {
  std::vector<Argument> arguments;  // empty when the image does not say
  unsigned registers = 0;           // of a thread; 0: not told
  unsigned shared = 0;              // bytes for a block, besides those that a launch asks for
};
using KernelTable = std::unordered_map<std::string, KernelImage>;  // by the kernel's mangled name
struct Kernel {
  std::string name;    // mangled, without what differs between builds by nature
  const void* image;   // of the fat binary, or null
  std::string symbol;  // mangled, as it is
  const KernelImage* code = nullptr;  // for the device, once it was looked for
  bool looked = false;
  cudaError_t refusal = cudaSuccess;  // of every launch: there is no code for the device
  std::vector<Argument> arguments;    // empty when the image does not say
  std::vector<Unset> unset;           // their bytes that nobody sets
  size_t dynamic[kMaxDevices] = {};   // bytes of shared memory that were opted in to, by device
};

// The name without hashes of files and lists of architectures.
std::string normalised(const std::string& mangled);

// What the kernel's image for the simulated architecture (or the nearest below) declares; nothing where there is none.
const KernelImage& image_of(const void* fatbin, const std::string& symbol, int architecture);

// What a launch answers where the image has no such kernel, or nothing for that architecture. No error where it does not say.
cudaError_t refusal_of(const void* fatbin, const std::string& symbol, int architecture);

// What clang registers for AMD's devices is a bundle of code objects.
bool is_bundle(const void* image);
KernelTable read_bundle(const void* image);

cudaError_t launch(Kernel& kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t handle);
// How many blocks of so many threads and bytes of shared memory fit on a multiprocessor.
int occupancy(int block, size_t shared, const KernelImage& kernel = {});

}  // namespace sim
