// A driver over a runtime that looks like CUDA's: what `csrc/driver.cpp` of a backend becomes when the vendor's library
// has streams, events and asynchronous copies of that shape. Read your own prefix for `cuda`; `decouple reuse` writes a
// header that maps the names. It compiles against the CUDA toolkit and, without a driver on the machine, says so.
#include <cuda_runtime_api.h>
#include <third_device/driver.h>

#include <atomic>
#include <cstdio>
#include <memory>

namespace {

thread_local const char* last_error = "no error";
std::atomic<bool> host_function_failed{false};

td_status status_of(cudaError_t code) {
  if (code == cudaSuccess) return TD_OK;
  if (code == cudaErrorNotReady) return TD_NOT_READY;
  last_error = cudaGetErrorString(code);
  (void)cudaGetLastError();  // errors that do not stick are told once
  switch (code) {
    case cudaErrorMemoryAllocation: return TD_OUT_OF_MEMORY;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice: return TD_INVALID;
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary: return TD_NO_DRIVER;
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable: return TD_DEVICE_LOST;
    default: return TD_FAILED;
  }
}

cudaStream_t native(td_stream stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t native(td_event event) { return reinterpret_cast<cudaEvent_t>(event); }

// The outcome of waiting: the runtime's, or that of a host function before it.
td_status waited(cudaError_t code) {
  const td_status status = status_of(code);
  if (status != TD_OK || !host_function_failed.exchange(false)) return status;
  last_error = "a host function on a stream failed";
  return TD_FAILED;
}

// The caller's device stays current: the layer tells of a change by device_set alone.
template <typename F>
cudaError_t on(int device, F&& work) {
  int former = 0;
  cudaError_t code = cudaGetDevice(&former);
  if (code == cudaSuccess) code = cudaSetDevice(device);
  if (code == cudaSuccess) code = work();
  (void)cudaSetDevice(former);
  return code;
}

const char* error_text() { return last_error; }
td_status init() { return TD_OK; }

td_status device_count(int* count) {
  const cudaError_t code = cudaGetDeviceCount(count);
  if (code != cudaSuccess) *count = 0;
  return code == cudaErrorNoDevice ? TD_OK : status_of(code);
}

td_status device_set(int device) { return status_of(cudaSetDevice(device)); }

td_status device_properties(int device, td_properties* properties) {
  cudaDeviceProp found;
  const td_status status = status_of(cudaGetDeviceProperties(&found, device));
  if (status != TD_OK) return status;
  std::snprintf(properties->name, sizeof(properties->name), "%.63s", found.name);
  properties->total_memory = found.totalGlobalMem;
  properties->major = found.major;
  properties->minor = found.minor;
  properties->units = found.multiProcessorCount;
  return TD_OK;
}

td_status device_synchronize(int device) { return waited(on(device, cudaDeviceSynchronize)); }

td_status memory_info(int device, size_t* free_bytes, size_t* total_bytes) {
  return status_of(on(device, [&] { return cudaMemGetInfo(free_bytes, total_bytes); }));
}

td_status memory_alloc(int device, size_t bytes, void** address) {
  return status_of(on(device, [&] { return cudaMalloc(address, bytes); }));
}

td_status memory_free(int device, void* address) {
  return status_of(on(device, [&] { return cudaFree(address); }));
}

td_status memory_owner(const void* address, td_memory* kind, int* device) {
  cudaPointerAttributes found;
  const td_status status = status_of(cudaPointerGetAttributes(&found, address));
  if (status != TD_OK) return status;
  *kind = found.type == cudaMemoryTypeDevice ? TD_MEMORY_DEVICE
          : found.type == cudaMemoryTypeHost ? TD_MEMORY_HOST_PINNED
                                             : TD_MEMORY_UNKNOWN;
  *device = found.type == cudaMemoryTypeDevice ? found.device : TD_HOST;
  return TD_OK;
}

td_status memory_set(void* address, int value, size_t bytes, td_stream stream) {
  return status_of(cudaMemsetAsync(address, value, bytes, native(stream)));
}

td_status copy(void* to, int to_device, const void* from, int from_device, size_t bytes, td_stream stream) {
  if (to_device != TD_HOST && from_device != TD_HOST && to_device != from_device) {
    return status_of(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, native(stream)));
  }
  return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

td_status host_alloc(size_t bytes, void** address) {
  return status_of(cudaHostAlloc(address, bytes, cudaHostAllocPortable));
}

td_status host_free(void* address) { return status_of(cudaFreeHost(address)); }

td_status stream_priorities(int* lowest, int* highest) {
  return status_of(cudaDeviceGetStreamPriorityRange(lowest, highest));
}

td_status stream_create(int device, int priority, td_stream* stream) {
  return status_of(on(device, [&] {
    return cudaStreamCreateWithPriority(reinterpret_cast<cudaStream_t*>(stream), cudaStreamNonBlocking, priority);
  }));
}

td_status stream_destroy(td_stream stream) { return status_of(cudaStreamDestroy(native(stream))); }
td_status stream_query(td_stream stream) { return waited(cudaStreamQuery(native(stream))); }
td_status stream_synchronize(td_stream stream) { return waited(cudaStreamSynchronize(native(stream))); }

td_status stream_wait(td_stream stream, td_event event) {
  return status_of(cudaStreamWaitEvent(native(stream), native(event), 0));
}

struct Call {
  td_callback function;
  void* argument;
};

void run_call(void* given) {
  const std::unique_ptr<Call> call(static_cast<Call*>(given));
  td_status status = TD_FAILED;
  try {
    status = call->function(call->argument);
  } catch (...) {  // the runtime's thread must not see it
  }
  if (status != TD_OK) host_function_failed = true;
}

td_status stream_call(td_stream stream, td_callback function, void* argument) {
  auto call = std::make_unique<Call>(Call{function, argument});
  const cudaError_t code = cudaLaunchHostFunc(native(stream), run_call, call.get());
  if (code == cudaSuccess) (void)call.release();
  return status_of(code);
}

td_status event_create(int device, int timing, td_event* event) {
  return status_of(on(device, [&] {
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), timing ? 0 : cudaEventDisableTiming);
  }));
}

td_status event_destroy(td_event event) { return status_of(cudaEventDestroy(native(event))); }

td_status event_record(td_event event, td_stream stream) {
  return status_of(cudaEventRecord(native(event), native(stream)));
}

// Not waited(): a failure is told by streams and devices; the allocators ask events and tell nobody.
td_status event_query(td_event event) { return status_of(cudaEventQuery(native(event))); }
td_status event_synchronize(td_event event) { return status_of(cudaEventSynchronize(native(event))); }

td_status event_elapsed(td_event start, td_event end, double* milliseconds) {
  float measured = 0;
  const td_status status = status_of(cudaEventElapsedTime(&measured, native(start), native(end)));
  *milliseconds = measured;
  return status;
}

td_status control(const char*, long long) { return TD_INVALID; }

}  // namespace

extern "C" const td_driver* third_device_driver() {
  static const td_driver table = {
      TD_DRIVER_ABI, error_text, init, device_count, device_set, device_properties, device_synchronize, memory_info,
      memory_alloc, memory_free, memory_owner, memory_set, copy, host_alloc, host_free, stream_priorities, stream_create,
      stream_destroy, stream_query, stream_synchronize, stream_wait, stream_call, event_create, event_destroy,
      event_record, event_query, event_synchronize, event_elapsed, control,
      // no records for profiles (they would come from CUPTI), no names for tools (NVTX)
      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  return &table;
}
