// A driver over a runtime that is shaped as CUDA's is: streams, events and asynchronous copies by functions of one prefix.
//
//   #include <acme_runtime.h>
//   #define TD_RUNTIME(name) acme##name
//   #include <third_device/runtime_driver.h>
//
//   extern "C" const td_driver* third_device_driver() {
//     static const td_driver table = third_device::runtime_driver();
//     return &table;
//   }
//
// A name that the runtime spells otherwise is defined before (#define acmePointerAttributes acmePointerAttribute_t), and
// what it does otherwise is a member of the table, replaced in a copy. For one source file: it defines the functions.
// `#define TD_RUNTIME_GRAPHS` before it where the runtime captures the work of streams as CUDA's does.
#pragma once

#ifndef TD_RUNTIME
#error "define TD_RUNTIME(name) as the name with the runtime's prefix: #define TD_RUNTIME(name) acme##name"
#endif

#include <third_device/driver.h>

#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace third_device {
namespace {

thread_local const char* last_error = "no error";

// Each stream's device, and whether a host function on it failed, which the next to wait for the stream or its device is told.
struct Stream {
  int device = 0;
  bool failed = false;
};

struct Streams {
  std::mutex mutex;
  std::map<td_stream, Stream> known;
};

Streams& streams() {
  static auto* instance = new Streams;  // never destroyed: the runtime's threads may run functions at the process's end
  return *instance;
}

td_status status_of(TD_RUNTIME(Error_t) code) {
  if (code == TD_RUNTIME(Success)) return TD_OK;
  // Errors that do not stick are told once, here: "not ready", too, or who checks a launch next takes it for the launch's.
  (void)TD_RUNTIME(GetLastError)();
  if (code == TD_RUNTIME(ErrorNotReady)) return TD_NOT_READY;
  last_error = TD_RUNTIME(GetErrorString)(code);
  // no switch: a runtime may give two of them one value
  if (code == TD_RUNTIME(ErrorMemoryAllocation)) return TD_OUT_OF_MEMORY;
  if (code == TD_RUNTIME(ErrorInvalidValue) || code == TD_RUNTIME(ErrorInvalidDevice)) return TD_INVALID;
  if (code == TD_RUNTIME(ErrorInsufficientDriver) || code == TD_RUNTIME(ErrorStubLibrary)) return TD_NO_DRIVER;
  if (code == TD_RUNTIME(ErrorDevicesUnavailable) || code == TD_RUNTIME(ErrorECCUncorrectable)) return TD_DEVICE_LOST;
  return TD_FAILED;
}

TD_RUNTIME(Stream_t) native(td_stream stream) { return reinterpret_cast<TD_RUNTIME(Stream_t)>(stream); }
TD_RUNTIME(Event_t) native(td_event event) { return reinterpret_cast<TD_RUNTIME(Event_t)>(event); }

// The outcome of waiting: the runtime's, or that of a host function on one of the chosen streams.
template <typename F>
td_status waited(TD_RUNTIME(Error_t) code, F&& chosen) {
  td_status status = status_of(code);
  if (status != TD_OK) return status;
  std::lock_guard<std::mutex> hold(streams().mutex);
  for (auto& [stream, state] : streams().known) {
    if (!state.failed || !chosen(stream, state.device)) continue;
    state.failed = false;
    last_error = "a host function on a stream failed";
    status = TD_FAILED;
  }
  return status;
}

td_status waited_for(td_stream one, TD_RUNTIME(Error_t) code) {
  return waited(code, [one](td_stream stream, int) { return stream == one; });
}

// The caller's device stays current: the layer tells of a change by device_set alone.
template <typename F>
TD_RUNTIME(Error_t) on(int device, F&& work) {
  int former = 0;
  TD_RUNTIME(Error_t) code = TD_RUNTIME(GetDevice)(&former);
  if (code == TD_RUNTIME(Success)) code = TD_RUNTIME(SetDevice)(device);
  if (code == TD_RUNTIME(Success)) code = work();
  (void)TD_RUNTIME(SetDevice)(former);
  return code;
}

const char* error_text() { return last_error; }
td_status init() { return TD_OK; }

td_status device_count(int* count) {
  const TD_RUNTIME(Error_t) code = TD_RUNTIME(GetDeviceCount)(count);
  const td_status status = status_of(code);
  if (status != TD_OK) *count = 0;
  return code == TD_RUNTIME(ErrorNoDevice) ? TD_OK : status;
}

td_status device_set(int device) { return status_of(TD_RUNTIME(SetDevice)(device)); }

td_status device_properties(int device, td_properties* properties) {
  TD_RUNTIME(DeviceProp) found;
  const td_status status = status_of(TD_RUNTIME(GetDeviceProperties)(&found, device));
  if (status != TD_OK) return status;
  std::snprintf(properties->name, sizeof(properties->name), "%.63s", found.name);
  properties->total_memory = found.totalGlobalMem;
  properties->major = found.major;
  properties->minor = found.minor;
  properties->units = found.multiProcessorCount;
  return TD_OK;
}

td_status device_synchronize(int device) {
  return waited(on(device, TD_RUNTIME(DeviceSynchronize)), [device](td_stream, int its) { return its == device; });
}

td_status memory_info(int device, size_t* free_bytes, size_t* total_bytes) {
  return status_of(on(device, [&] { return TD_RUNTIME(MemGetInfo)(free_bytes, total_bytes); }));
}

td_status memory_alloc(int device, size_t bytes, void** address) {
  return status_of(on(device, [&] { return TD_RUNTIME(Malloc)(address, bytes); }));
}

td_status memory_free(int device, void* address) {
  return status_of(on(device, [&] { return TD_RUNTIME(Free)(address); }));
}

td_status memory_owner(const void* address, td_memory* kind, int* device) {
  TD_RUNTIME(PointerAttributes) found;
  const td_status status = status_of(TD_RUNTIME(PointerGetAttributes)(&found, address));
  if (status != TD_OK) return status;
  *kind = found.type == TD_RUNTIME(MemoryTypeDevice) ? TD_MEMORY_DEVICE
          : found.type == TD_RUNTIME(MemoryTypeHost) ? TD_MEMORY_HOST_PINNED
                                             : TD_MEMORY_UNKNOWN;
  *device = found.type == TD_RUNTIME(MemoryTypeDevice) ? found.device : TD_HOST;
  return TD_OK;
}

td_status memory_set(void* address, int value, size_t bytes, td_stream stream) {
  return status_of(TD_RUNTIME(MemsetAsync)(address, value, bytes, native(stream)));
}

td_status copy(void* to, int to_device, const void* from, int from_device, size_t bytes, td_stream stream) {
  if (to_device != TD_HOST && from_device != TD_HOST && to_device != from_device) {
    return status_of(TD_RUNTIME(MemcpyPeerAsync)(to, to_device, from, from_device, bytes, native(stream)));
  }
  return status_of(TD_RUNTIME(MemcpyAsync)(to, from, bytes, TD_RUNTIME(MemcpyDefault), native(stream)));
}

td_status host_alloc(size_t bytes, void** address) {
  return status_of(TD_RUNTIME(HostAlloc)(address, bytes, TD_RUNTIME(HostAllocPortable)));
}

td_status host_free(void* address) { return status_of(TD_RUNTIME(FreeHost)(address)); }

td_status stream_priorities(int* lowest, int* highest) {
  return status_of(TD_RUNTIME(DeviceGetStreamPriorityRange)(lowest, highest));
}

td_status stream_create(int device, int priority, td_stream* stream) {
  const td_status status = status_of(on(device, [&] {
    return TD_RUNTIME(StreamCreateWithPriority)(reinterpret_cast<TD_RUNTIME(Stream_t)*>(stream), TD_RUNTIME(StreamNonBlocking), priority);
  }));
  if (status != TD_OK) return status;
  std::lock_guard<std::mutex> hold(streams().mutex);
  streams().known[*stream] = {device, false};
  return status;
}

td_status stream_destroy(td_stream stream) {
  {
    std::lock_guard<std::mutex> hold(streams().mutex);
    streams().known.erase(stream);
  }
  return status_of(TD_RUNTIME(StreamDestroy)(native(stream)));
}

td_status stream_query(td_stream stream) { return waited_for(stream, TD_RUNTIME(StreamQuery)(native(stream))); }
td_status stream_synchronize(td_stream stream) { return waited_for(stream, TD_RUNTIME(StreamSynchronize)(native(stream))); }

td_status stream_wait(td_stream stream, td_event event) {
  return status_of(TD_RUNTIME(StreamWaitEvent)(native(stream), native(event), 0));
}

struct Call {
  td_callback function;
  void* argument;
  td_stream stream;
};

void call_again(void* given) {
  const Call* call = static_cast<Call*>(given);
  td_status status = TD_FAILED;
  try {
    status = call->function(call->argument);
  } catch (...) {  // the runtime's thread must not see it
  }
  if (status == TD_OK) return;
  std::lock_guard<std::mutex> hold(streams().mutex);
  streams().known[call->stream].failed = true;
}

void run_call(void* given) {
  const std::unique_ptr<Call> call(static_cast<Call*>(given));
  call_again(call.get());
}

#ifdef TD_RUNTIME_GRAPHS
using CaptureId = unsigned long long;

// What the nodes of a graph point to lives as long as the graph does.
struct Graph {
  TD_RUNTIME(GraphExec_t) executable = nullptr;
  std::vector<std::unique_ptr<Call>> calls;
};

struct Captures {
  std::mutex mutex;
  std::map<CaptureId, std::vector<std::unique_ptr<Call>>> calls;
  std::map<td_stream, CaptureId> begun;
};

Captures& captures() {
  static auto* instance = new Captures;
  return *instance;
}

// Whether the stream is captured, and by which capture. One that is broken is one no more.
TD_RUNTIME(Error_t) ask_capture(td_stream stream, bool* active, CaptureId* id) {
  TD_RUNTIME(StreamCaptureStatus) status = TD_RUNTIME(StreamCaptureStatusNone);
  const TD_RUNTIME(Error_t) code = TD_RUNTIME(StreamGetCaptureInfo)(native(stream), &status, id);
  *active = code == TD_RUNTIME(Success) && status == TD_RUNTIME(StreamCaptureStatusActive);
  return code;
}

td_status graph_begin(td_stream stream) {
  // Relaxed: the layer's allocators ask events and take memory meanwhile. What must not be is refused in any mode.
  const td_status status = status_of(TD_RUNTIME(StreamBeginCapture)(native(stream), TD_RUNTIME(StreamCaptureModeRelaxed)));
  bool active = false;
  CaptureId id = 0;
  if (status != TD_OK) return status;
  const td_status asked = status_of(ask_capture(stream, &active, &id));
  std::lock_guard<std::mutex> hold(captures().mutex);
  captures().begun[stream] = id;
  return asked;
}

td_status graph_end(td_stream stream, td_graph* graph) {
  *graph = nullptr;
  auto made = std::make_unique<Graph>();
  {
    std::lock_guard<std::mutex> hold(captures().mutex);
    if (auto begun = captures().begun.find(stream); begun != captures().begun.end()) {
      made->calls = std::move(captures().calls[begun->second]);
      captures().calls.erase(begun->second);
      captures().begun.erase(begun);
    }
  }
  TD_RUNTIME(Graph_t) nodes = nullptr;
  td_status status = status_of(TD_RUNTIME(StreamEndCapture)(native(stream), &nodes));
  if (status == TD_OK) status = status_of(TD_RUNTIME(GraphInstantiateWithFlags)(&made->executable, nodes, 0));
  if (nodes != nullptr) (void)TD_RUNTIME(GraphDestroy)(nodes);
  if (status == TD_OK) *graph = reinterpret_cast<td_graph>(made.release());
  return status;
}

td_status graph_launch(td_graph graph, td_stream stream) {
  Graph* launched = reinterpret_cast<Graph*>(graph);
  {
    std::lock_guard<std::mutex> hold(streams().mutex);
    for (const auto& call : launched->calls) call->stream = stream;
  }
  return status_of(TD_RUNTIME(GraphLaunch)(launched->executable, native(stream)));
}

td_status graph_destroy(td_graph graph) {
  const std::unique_ptr<Graph> owned(reinterpret_cast<Graph*>(graph));
  return status_of(TD_RUNTIME(GraphExecDestroy)(owned->executable));
}

td_status graph_captures(td_stream stream, int* captures) {
  bool active = false;
  CaptureId id = 0;
  const td_status status = status_of(ask_capture(stream, &active, &id));
  *captures = active;
  return status;
}
#endif

td_status stream_call(td_stream stream, td_callback function, void* argument) {
  auto call = std::make_unique<Call>(Call{function, argument, stream});
#ifdef TD_RUNTIME_GRAPHS
  bool active = false;
  CaptureId id = 0;
  if (const td_status status = status_of(ask_capture(stream, &active, &id))) return status;
  if (active) {
    const td_status status = status_of(TD_RUNTIME(LaunchHostFunc)(native(stream), call_again, call.get()));
    std::lock_guard<std::mutex> hold(captures().mutex);
    captures().calls[id].push_back(std::move(call));
    return status;
  }
#endif
  const TD_RUNTIME(Error_t) code = TD_RUNTIME(LaunchHostFunc)(native(stream), run_call, call.get());
  if (code == TD_RUNTIME(Success)) (void)call.release();
  return status_of(code);
}

td_status event_create(int device, int timing, td_event* event) {
  return status_of(on(device, [&] {
    return TD_RUNTIME(EventCreateWithFlags)(reinterpret_cast<TD_RUNTIME(Event_t)*>(event), timing ? 0 : TD_RUNTIME(EventDisableTiming));
  }));
}

td_status event_destroy(td_event event) { return status_of(TD_RUNTIME(EventDestroy)(native(event))); }

td_status event_record(td_event event, td_stream stream) {
  return status_of(TD_RUNTIME(EventRecord)(native(event), native(stream)));
}

// Not waited(): a failure is told by streams and devices; the allocators ask events and tell nobody.
td_status event_query(td_event event) { return status_of(TD_RUNTIME(EventQuery)(native(event))); }
td_status event_synchronize(td_event event) { return status_of(TD_RUNTIME(EventSynchronize)(native(event))); }

td_status event_elapsed(td_event start, td_event end, double* milliseconds) {
  float measured = 0;
  const td_status status = status_of(TD_RUNTIME(EventElapsedTime)(&measured, native(start), native(end)));
  *milliseconds = measured;
  return status;
}

td_status control(const char*, long long) { return TD_INVALID; }

// The table; without records for profiles and names for tools, which no two runtimes have alike.
td_driver runtime_driver() {
  return {TD_DRIVER_ABI, error_text, init, device_count, device_set, device_properties, device_synchronize, memory_info,
          memory_alloc, memory_free, memory_owner, memory_set, copy, host_alloc, host_free, stream_priorities,
          stream_create, stream_destroy, stream_query, stream_synchronize, stream_wait, stream_call, event_create,
          event_destroy, event_record, event_query, event_synchronize, event_elapsed, control,
          nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
#ifdef TD_RUNTIME_GRAPHS
          graph_begin, graph_end, graph_launch, graph_destroy, graph_captures
#else
          nullptr, nullptr, nullptr, nullptr, nullptr
#endif
  };
}

}  // namespace
}  // namespace third_device
