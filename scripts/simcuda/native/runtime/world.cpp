#include "world.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unordered_set>

#include <unistd.h>

namespace sim {
namespace {

const char* text(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

Options read_options() {
  Options o{};
  const char* devices = text("SIMCUDA_DEVICES");
  o.devices = devices ? atoi(devices) : 2;
  if (o.devices < 0) o.devices = 0;
  if (o.devices > kMaxDevices) o.devices = kMaxDevices;
  const char* memory = text("SIMCUDA_MEMORY");
  o.memory = memory ? strtoull(memory, nullptr, 10) : size_t(16) << 30;
  o.major = 9, o.minor = 0;
  if (const char* arch = text("SIMCUDA_ARCH")) sscanf(arch, "%d.%d", &o.major, &o.minor);
  o.log = text("SIMCUDA_LOG");
  o.errors = text("SIMCUDA_ERRORS");
  return o;
}

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<int> sticky{cudaSuccess};
std::atomic<bool> asserted{false};  // by a kernel of which nobody has heard yet
std::atomic<bool> forked{false};
std::atomic<bool> initialized{false};
pthread_once_t fork_rule = PTHREAD_ONCE_INIT;

// CUDA does not work in a child forked after initialisation: cudaErrorInitializationError, whatever it calls.
void watch_forks() {
  pthread_atfork([] { world().lock(); }, [] { world().unlock(); }, [] {
    // A new lock: the old one's owner is a thread of the parent, by its number, which the child's has not. So an unlock
    // is refused, and who locks without asking for the state of the process would wait for ever.
    new (&world()) std::recursive_mutex;
    forked = true;
  });
}

struct Name {
  cudaError_t code;
  const char *name, *text;
};
// The texts are the ones that PyTorch's tests and users look for in messages.
constexpr Name kNames[] = {
#define NAME(name, text) {name, #name, text}
    NAME(cudaSuccess, "no error"),
    NAME(cudaErrorInvalidValue, "invalid argument"),
    NAME(cudaErrorMemoryAllocation, "out of memory"),
    NAME(cudaErrorInitializationError, "initialization error"),
    NAME(cudaErrorCudartUnloading, "driver shutting down"),
    NAME(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAME(cudaErrorInvalidSymbol, "invalid device symbol"),
    NAME(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    NAME(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    NAME(cudaErrorInvalidDeviceFunction, "invalid device function"),
    NAME(cudaErrorMissingConfiguration, "__global__ function call is not configured"),
    NAME(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    NAME(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAME(cudaErrorDeviceUninitialized, "invalid device context"),
    NAME(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    NAME(cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"),
    NAME(cudaErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    NAME(cudaErrorFileNotFound, "file not found"),
    NAME(cudaErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    NAME(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    NAME(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    NAME(cudaErrorSymbolNotFound, "named symbol not found"),
    NAME(cudaErrorNotReady, "device not ready"),
    NAME(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    NAME(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    NAME(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    NAME(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    NAME(cudaErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    NAME(cudaErrorContextIsDestroyed, "context is destroyed"),
    NAME(cudaErrorAssert, "device-side assert triggered"),
    NAME(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    NAME(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    NAME(cudaErrorMisalignedAddress, "misaligned address"),
    NAME(cudaErrorInvalidPc, "invalid program counter"),
    NAME(cudaErrorLaunchFailure, "unspecified launch failure"),
    NAME(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"),
    NAME(cudaErrorNotPermitted, "operation not permitted"),
    NAME(cudaErrorNotSupported, "operation not supported"),
    NAME(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    NAME(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    NAME(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    NAME(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    NAME(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    NAME(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    NAME(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    NAME(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    NAME(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    NAME(cudaErrorTimeout, "wait operation timed out"),
    NAME(cudaErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"),
    NAME(cudaErrorUnknown, "unknown error"),
#undef NAME
};

const Name* find(cudaError_t code) {
  for (const Name& name : kNames)
    if (name.code == code) return &name;
  return nullptr;
}

}  // namespace

const Options& options() {
  static const Options o = read_options();
  return o;
}

std::recursive_mutex& world() {
  static auto* mutex = new std::recursive_mutex;  // outlives destructors of other libraries that still free memory
  return *mutex;
}

uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000u + t.tv_nsec;
}

void sleep_until(uint64_t when) {
  timespec t{time_t(when / 1000000000u), long(when % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
  }
}

cudaError_t fail(cudaError_t error, const char* function) {
  if (error == cudaSuccess) return error;
  last_error = error;
  if (options().errors)
    if (FILE* file = fopen(options().errors, "a")) {
      fprintf(file, "%d %s %s\n", int(error), cudaGetErrorName(error), function);
      fclose(file);
    }
  return error;
}

cudaError_t process_state() {
  initialized = true;
  pthread_once(&fork_rule, watch_forks);
  if (forked) return cudaErrorInitializationError;
  return cudaError_t(sticky.load());
}

void stick(cudaError_t error) {
  int none = cudaSuccess;
  sticky.compare_exchange_strong(none, error);
}

cudaError_t reached() {
  if (asserted.exchange(false)) stick(cudaErrorAssert);
  return cudaError_t(sticky.load());
}

cudaError_t not_supported(const char* name) {
  std::lock_guard<std::recursive_mutex> lock(world());
  static auto* seen = new std::unordered_set<std::string>;
  if (options().log && seen->insert(name).second)
    if (FILE* file = fopen(options().log, "a")) {
      fprintf(file, "%s\n", name);
      fclose(file);
    }
  return cudaErrorNotSupported;
}

}  // namespace sim

SIM_API const char* cudaGetErrorName(cudaError_t error) {
  const sim::Name* name = sim::find(error);
  return name ? name->name : "unrecognized error code";
}
SIM_API const char* cudaGetErrorString(cudaError_t error) {
  const sim::Name* name = sim::find(error);
  return name ? name->text : "unrecognized error code";
}
SIM_API cudaError_t cudaPeekAtLastError() {
  cudaError_t sticky = cudaError_t(sim::sticky.load());
  return sticky != cudaSuccess ? sticky : sim::last_error;
}
SIM_API cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  sim::last_error = cudaSuccess;
  return error;
}

SIM_API int simcuda_driver_initialized(void) { return sim::initialized && !sim::forked; }
// A device assert, as a kernel would raise it: the next call that waits for the device fails, and every later one.
SIM_API void simcuda_device_assert(void) { sim::asserted = true; }
SIM_API int simcuda_not_supported(const char* name) { return sim::not_supported(name); }

SIM_API void simcuda_paint(void) { sim::paint(32); }
