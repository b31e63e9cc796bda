// What every file of the simulated runtime shares: the one lock, options, clock, errors.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "unset.h"

#define SIM_API extern "C" __attribute__((visibility("default")))

namespace sim {

constexpr int kMaxDevices = 8;

// Chosen by `python -m simcuda run`, read once from the environment.
struct Options {
  int devices;         // SIMCUDA_DEVICES, 1 to 8
  size_t memory;       // SIMCUDA_MEMORY, bytes of each device
  int major, minor;    // SIMCUDA_ARCH, as "9.0"
  const char* log;     // SIMCUDA_LOG: file that names what was asked for and is not implemented
  const char* errors;  // SIMCUDA_ERRORS: file that gets every error code that was returned
};
const Options& options();

// Host calls are serialised by this lock. Work of a stream runs without it.
std::recursive_mutex& world();

// Nanoseconds of CLOCK_MONOTONIC; streams and events are points on this line, which may lie in the future.
uint64_t now();
void sleep_until(uint64_t when);

// Remembers the error for cudaGetLastError of this thread and returns it.
cudaError_t fail(cudaError_t error, const char* function);

// The state of a whole process: forked after initialisation, or ended by an error that sticks until the process ends.
cudaError_t process_state();
void stick(cudaError_t error);

// For calls that wait for the device, or ask how far it is: the assert of a kernel that ended, which sticks from now on.
cudaError_t reached();

// Logs once that `name` was asked for and answers "not supported".
cudaError_t not_supported(const char* name);

}  // namespace sim

#define FAIL(error) return ::sim::fail((error), __func__)
// First line of nearly every entry point: the paint, sticky errors, the fork rule, the lock.
#define ENTER                                                                   \
  ::sim::paint();                                                               \
  if (cudaError_t state_ = ::sim::process_state(); state_ != cudaSuccess) FAIL(state_); \
  std::lock_guard<std::recursive_mutex> lock_(::sim::world())
#define CHECK(expression) \
  if (cudaError_t e_ = (expression); e_ != cudaSuccess) FAIL(e_)
