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
using ArgumentTable = std::unordered_map<std::string, std::vector<Argument>>;  // by the kernel's mangled name
struct Kernel {
  std::string name;    // mangled, without what differs between builds by nature
  const void* image;   // of the fat binary, or null
  std::string symbol;  // mangled, as it is
  bool looked = false, absent = false;
  std::vector<Argument> arguments;  // empty when the image does not say
  std::vector<Unset> unset;         // their bytes that nobody sets
};

// The name without hashes of files and lists of architectures.
std::string normalised(const std::string& mangled);

// Sizes of the kernel's arguments, as its image for the simulated architecture (or the nearest below) declares them.
std::vector<Argument> arguments_of(const void* fatbin, const std::string& symbol, int architecture);

// Whether the image says that it has no such kernel.
bool is_absent(const void* fatbin, const std::string& symbol, int architecture);

// What clang registers for AMD's devices is a bundle of code objects.
bool is_bundle(const void* image);
ArgumentTable read_bundle(const void* image);

cudaError_t launch(Kernel& kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t handle);
int occupancy(int block, size_t shared);

}  // namespace sim
