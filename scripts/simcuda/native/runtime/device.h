// Devices: which there are, the current one of a thread, what a context holds.
#pragma once
#include <set>

#include "arena.h"
#include "streams.h"
#include "world.h"

struct CUmemPoolHandle_st {
  int device;
  uint64_t reserved = 0, used = 0, reserved_high = 0, used_high = 0, threshold = 0;
  int reuse[3] = {1, 1, 1};
};

namespace sim {

struct Device {
  bool active = false;  // its primary context is there
  unsigned flags = 0;
  Arena memory;
  CUstream_st null_stream{};
  std::set<int> peers;
  CUmemPoolHandle_st pool{};
  size_t limits[8] = {1024, 7 << 20, 8 << 20, 2, 2048, 64, 0, 0};
};

struct BlockLimits {  // what a launch may ask for, beside its 1024 threads
  unsigned depth = 64;     // threads in z
  size_t shared = 232448;  // bytes of shared memory
};
BlockLimits& limits();

int device_count();              // those that CUDA_VISIBLE_DEVICES leaves
int physical_of(int device);     // its number on the machine
Device& device(int number);
int& current_device();           // of this thread
cudaError_t activate(int number);  // makes the primary context
int attribute(int number, cudaDeviceAttr attribute);

#define VALID_DEVICE(number) \
  if ((number) < 0 || (number) >= ::sim::device_count()) FAIL(cudaErrorInvalidDevice)
#define ANY_DEVICE \
  if (!::sim::device_count()) FAIL(cudaErrorNoDevice)

}  // namespace sim
