// Events are points of virtual time. An interprocess event keeps its point in memory that other processes map.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "activity.h"
#include "device.h"
#include "entries.h"

struct IpcEvent {  // where a page is: the file of the process that made it, and which file that is
  int process, file;
  dev_t device;
  ino_t number;
};
struct SharedEvent {  // one page
  std::atomic<uint64_t> time;
  IpcEvent handle;
};

namespace {

using namespace sim;

std::unordered_set<cudaEvent_t>& events() {
  static auto* all = new std::unordered_set<cudaEvent_t>;
  return *all;
}
#define EVENT(event) \
  if (!events().count(event)) FAIL(cudaErrorInvalidResourceHandle)

// /proc/PID/fd/N reaches the file from other processes.
SharedEvent* map_page(int file) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? nullptr : (SharedEvent*)page;
}

uint64_t time_of(const CUevent_st& event) {
  uint64_t other = event.shared ? event.shared->time.load() : 0;
  return std::max(event.recorded ? event.time : 0, other);
}
void set_time(CUevent_st* event, uint64_t when) {
  event->recorded = true;
  event->time = when;
  if (event->shared) event->shared->time = when;
}

}  // namespace

SIM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  ENTER;
  ANY_DEVICE;
  if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) FAIL(cudaErrorInvalidValue);
  CHECK(activate(current_device()));
  auto* event = new CUevent_st{current_device(), flags};
  events().insert(event);
  *out = event;
  return cudaSuccess;
}
SIM_API cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
SIM_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  ENTER;
  if (!events().erase(event)) FAIL(cudaErrorInvalidResourceHandle);
  if (event->shared) munmap(event->shared, 4096);
  if (event->file >= 0) close(event->file);
  delete event;
  return cudaSuccess;
}
SIM_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  CALL;
  ENTER;
  STREAM(stream, handle);
  EVENT(event);
  if (event->device != stream->device) FAIL(cudaErrorInvalidResourceHandle);
  note_order("record", stream->name());
  event->recorded_in = stream->name();
  if (Capture* capture = stream->capture) {
    if (capture->broken) FAIL(cudaErrorStreamCaptureInvalidated);
    if (flags & cudaEventRecordExternal)
      return enqueue(stream, cudaGraphNodeTypeEventRecord, 0, [event] { set_time(event, now()); }, "record event");
    event->capture = capture->id;
    event->after = stream->tail;
    event->recorded = true;
    return cudaSuccess;
  }
  if (waits_for_capture(*stream)) FAIL(cudaErrorStreamCaptureImplicit);
  event->capture = 0;
  event->after.clear();
  stream->busy = horizon(*stream);
  set_time(event, stream->busy);
  return cudaSuccess;
}
SIM_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  CALL;
  return cudaEventRecordWithFlags(event, handle, 0);
}
SIM_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  CALL;
  ENTER;
  EVENT(event);
  if (event->capture) {
    if (Capture* capture = capture_by_id(event->capture)) capture->broken = true;
    FAIL(cudaErrorCapturedEvent);
  }
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  CHECK(reached());
  if (time_of(*event) > now()) FAIL(cudaErrorNotReady);
  return cudaSuccess;
}
static cudaError_t event_done(cudaEvent_t event, uint64_t* when) {
  ENTER;
  EVENT(event);
  if (event->capture) FAIL(cudaErrorCapturedEvent);
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  CHECK(reached());
  note_order("sync event", event->recorded_in);
  *when = time_of(*event);
  return cudaSuccess;
}
SIM_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  CALL;
  uint64_t when;
  if (cudaError_t error = event_done(event, &when)) return error;
  sleep_until(when);
  return cudaSuccess;
}
SIM_API cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t first, cudaEvent_t second) {
  ENTER;
  EVENT(first);
  EVENT(second);
  if ((first->flags | second->flags) & cudaEventDisableTiming) FAIL(cudaErrorInvalidResourceHandle);
  if (!first->recorded || !second->recorded || first->device != second->device) FAIL(cudaErrorInvalidResourceHandle);
  if (first->capture || second->capture) FAIL(cudaErrorInvalidResourceHandle);
  if (std::max(first->time, second->time) > now()) FAIL(cudaErrorNotReady);
  *ms = float((double(second->time) - double(first->time)) / 1e6);
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  CALL;
  ENTER;
  STREAM(stream, handle);
  EVENT(event);
  note_wait(*stream, event->recorded_in);
  if (stream->capture && (flags & cudaEventWaitExternal))
    return enqueue(stream, cudaGraphNodeTypeWaitEvent, 0, [event] { sleep_until(time_of(*event)); }, "wait event");
  if (Capture* capture = event->capture ? capture_by_id(event->capture) : nullptr) {  // the stream joins that capture
    if (capture->broken) FAIL(cudaErrorStreamCaptureInvalidated);
    if (stream->capture && stream->capture != capture) {
      stream->capture->broken = capture->broken = true;
      FAIL(cudaErrorStreamCaptureMerge);
    }
    if (!stream->capture) {
      if (stream->is_null) {
        capture->broken = true;
        FAIL(cudaErrorStreamCaptureImplicit);
      }
      stream->capture = capture;
      stream->tail.clear();
      capture->streams.push_back(stream);
    }
    for (CUgraphNode_st* node : event->after)
      if (std::find(stream->tail.begin(), stream->tail.end(), node) == stream->tail.end()) stream->tail.push_back(node);
    return cudaSuccess;
  }
  if (stream->capture) {
    if (!event->recorded) return cudaSuccess;
    stream->capture->broken = true;
    FAIL(cudaErrorStreamCaptureIsolation);
  }
  if (waits_for_capture(*stream)) FAIL(cudaErrorStreamCaptureImplicit);
  if (uint64_t when = time_of(*event)) stream->busy = std::max(horizon(*stream), when);
  return cudaSuccess;
}
SIM_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t event) {
  ENTER;
  EVENT(event);
  if (!(event->flags & cudaEventInterprocess)) FAIL(cudaErrorInvalidResourceHandle);
  if (!event->shared) {
    int file = memfd_create("simcuda-event", MFD_CLOEXEC);
    struct stat info;
    SharedEvent* page = file >= 0 && !ftruncate(file, 4096) && !fstat(file, &info) ? map_page(file) : nullptr;
    if (!page) {
      if (file >= 0) close(file);
      FAIL(cudaErrorMapBufferObjectFailed);
    }
    page->handle = {getpid(), file, info.st_dev, info.st_ino};
    page->time = event->time;
    event->shared = page;
    event->file = file;
  }
  memset(out, 0, sizeof *out);
  static_assert(sizeof(IpcEvent) <= sizeof *out);
  memcpy(out, &event->shared->handle, sizeof(IpcEvent));
  return cudaSuccess;
}
SIM_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t packed) {
  ENTER;
  IpcEvent handle;
  memcpy(&handle, &packed, sizeof handle);
  if (handle.process == getpid()) FAIL(cudaErrorDeviceUninitialized);
  CHECK(activate(current_device()));
  std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  struct stat info;  // a process that destroyed the event may have another file of that number by now
  if (stat(path.c_str(), &info) || info.st_dev != handle.device || info.st_ino != handle.number)
    FAIL(cudaErrorInvalidResourceHandle);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) FAIL(cudaErrorInvalidResourceHandle);
  SharedEvent* page = map_page(file);
  close(file);
  if (!page) FAIL(cudaErrorMapBufferObjectFailed);
  auto* event = new CUevent_st{current_device(), cudaEventDisableTiming | cudaEventInterprocess};
  event->shared = page;
  events().insert(event);
  *out = event;
  return cudaSuccess;
}
