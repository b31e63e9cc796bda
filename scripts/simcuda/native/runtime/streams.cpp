#include "streams.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>
#include <utility>

#include "activity.h"
#include "device.h"
#include "entries.h"

namespace sim {
namespace {

thread_local int effects_off = 0;
thread_local bool counting = false;
thread_local long long expected_count = 0;
thread_local cudaStream_t last_stream = nullptr;
thread_local cudaStreamCaptureMode interaction = cudaStreamCaptureModeGlobal;

// Where the next stream lives: behind the last one, as long as there is room. PyTorch's allocator sorts its blocks by the
// handle of their stream and gives memory back in that order, which must not depend on the program's heap.
void* room_for_stream() {
  constexpr size_t room = size_t{1} << 26;
  static char* next = [] {
    void* begin = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return begin == MAP_FAILED ? nullptr : static_cast<char*>(begin);
  }();
  static char* const end = next ? next + room : nullptr;
  constexpr size_t size = (sizeof(CUstream_st) + 63) / 64 * 64;
  if (static_cast<size_t>(end - next) < size) return ::operator new(sizeof(CUstream_st));
  return std::exchange(next, next + size);
}

}  // namespace

unsigned long long next_id() {
  static std::atomic<unsigned long long> id{1000};
  return id++;
}
std::unordered_set<cudaStream_t>& streams() {
  static auto* all = new std::unordered_set<cudaStream_t>;
  return *all;
}
std::vector<std::unique_ptr<Capture>>& captures() {
  static auto* all = new std::vector<std::unique_ptr<Capture>>;
  return *all;
}
Capture* capture_by_id(unsigned long long id) {
  for (auto& c : captures())
    if (c->id == id) return c.get();
  return nullptr;
}

cudaStream_t stream_of(cudaStream_t handle) {
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    if (!device_count() || activate(current_device()) != cudaSuccess) return nullptr;
    return &device(current_device()).null_stream;
  }
  return streams().count(handle) ? handle : nullptr;
}

uint64_t horizon(const CUstream_st& stream) {
  uint64_t when = std::max(now(), stream.busy);
  if (stream.is_null) {  // the legacy stream waits for all blocking streams of its device, and they for it
    for (cudaStream_t other : streams())
      if (other->device == stream.device && other->blocking()) when = std::max(when, other->busy);
  } else if (stream.blocking()) {
    when = std::max(when, device(stream.device).null_stream.busy);
  }
  return when;
}

uint64_t device_done(int number) {
  uint64_t when = device(number).null_stream.busy;
  for (cudaStream_t stream : streams())
    if (stream->device == number) when = std::max(when, stream->busy);
  return when;
}

bool breaks_captures() {
  if (interaction == cudaStreamCaptureModeRelaxed) return false;
  bool hit = false;
  for (auto& c : captures()) {
    bool mine = c->thread == std::this_thread::get_id();
    bool touches = interaction == cudaStreamCaptureModeGlobal
                       ? c->mode == cudaStreamCaptureModeGlobal || (mine && c->mode == cudaStreamCaptureModeThreadLocal)
                       : mine && c->mode != cudaStreamCaptureModeRelaxed;
    if (touches) c->broken = hit = true;
  }
  return hit;
}

bool waits_for_capture(const CUstream_st& stream, bool breaks) {
  if (!stream.is_null) return false;
  bool hit = false;
  for (auto& c : captures())
    for (cudaStream_t other : c->streams)
      if (other->capture == c.get() && other->device == stream.device && other->blocking()) {
        c->broken |= breaks;
        hit = true;
      }
  return hit;
}

bool count_expected(long long* count) {
  *count = expected_count;
  return counting;
}
bool effects() { return !effects_off; }
void remember_stream(cudaStream_t stream) { last_stream = stream; }

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, uint64_t cost, std::function<void()> work,
                    std::string label) {
  last_stream = stream;
  if (Capture* capture = stream->capture) {
    if (capture->broken) FAIL(cudaErrorStreamCaptureInvalidated);
    stream->tail = {capture->graph->add({type, stream->tail, std::move(work), std::move(label), cost})};
    return cudaSuccess;
  }
  if (waits_for_capture(*stream)) FAIL(cudaErrorStreamCaptureImplicit);
  stream->busy = horizon(*stream) + cost;
  if (work) {
    world().unlock();
    work();
    world().lock();
  }
  return cudaSuccess;
}

}  // namespace sim

using namespace sim;

// ---- for the shadows: what the CPU computes is work of the stream that the operator used ----

// While it is off, copies and fills of this thread are recorded and not done. Nests.
SIM_API void simcuda_effects(int on) { effects_off += on ? -1 : 1; }
// Is this thread inside an operator whose result the CPU computes? Then no kernel of it needs to be there.
SIM_API int simcuda_value_follows(void) { return effects_off > 0; }
// Until it is off: what the host reads of a counter (4 or 8 bytes) that a kernel would have written.
SIM_API void simcuda_expect_count(int on, long long count) { counting = on, expected_count = count; }
SIM_API void* simcuda_last_stream(void) { return last_stream; }
SIM_API void simcuda_forget_stream(void) { last_stream = nullptr; }
// The stream as the ledger has it into `out`; "host" where there is none.
SIM_API void simcuda_stream_number(void* handle, char* out, size_t room) {
  std::lock_guard<std::recursive_mutex> lock(world());
  cudaStream_t stream = stream_of((cudaStream_t)handle);
  snprintf(out, room, "%s", stream ? ledger::number(stream->name()).c_str() : "\"host\"");
}
SIM_API int simcuda_is_capturing(void* handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  auto stream = (cudaStream_t)handle;
  return stream && stream->capture && !stream->capture->broken;
}
// The device of a stream; for HIP, which asks.
SIM_API int simcuda_stream_device(void* handle) {
  std::lock_guard<std::recursive_mutex> lock(world());
  cudaStream_t stream = stream_of((cudaStream_t)handle);
  return stream ? stream->device : current_device();
}
// The first stream that captures on this device, or null: where an operator without launches would have gone.
SIM_API int simcuda_any_capture(int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  for (auto& c : captures())
    if (c->origin->device == number && c->thread == std::this_thread::get_id()) return 1;
  return 0;
}
// `run(state)` as work of the stream, `drop(state)` when nobody can run it any more.
SIM_API int simcuda_enqueue(void* handle, void (*run)(void*), void (*drop)(void*), void* state, const char* label) {
  std::shared_ptr<void> owner(state, drop);
  ENTER;
  STREAM(stream, (cudaStream_t)handle);
  CHECK(enqueue(stream, cudaGraphNodeTypeKernel, 2000, [owner, run] { run(owner.get()); }, label));
  if (stream->capture) stream->tail.back()->shadow = true;
  return cudaSuccess;
}

// ---- streams ----
SIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  ENTER;
  ANY_DEVICE;
  CHECK(activate(current_device()));
  auto* stream = new (room_for_stream()) CUstream_st{};
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = next_id();
  streams().insert(stream);
  *out = stream;
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
SIM_API cudaError_t cudaStreamCreate(cudaStream_t* out) { return cudaStreamCreateWithPriority(out, 0, 0); }
SIM_API cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  if (stream->is_null) FAIL(cudaErrorInvalidResourceHandle);
  if (stream->capture) stream->capture->broken = true;
  streams().erase(stream);  // the object stays: a capture may still name it, and its address must not be used again
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  ENTER;
  STREAM(stream, handle);
  *priority = stream->priority;
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  ENTER;
  STREAM(stream, handle);
  *flags = stream->flags;
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  ENTER;
  STREAM(stream, handle);
  *id = stream->id;
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamQuery(cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  if (stream->capture) {
    stream->capture->broken = true;
    FAIL(cudaErrorStreamCaptureUnsupported);
  }
  if (waits_for_capture(*stream)) FAIL(cudaErrorStreamCaptureImplicit);
  CHECK(reached());
  uint64_t done = stream->is_null ? horizon(*stream) : stream->busy;
  if (done > now()) FAIL(cudaErrorNotReady);
  return cudaSuccess;
}
static cudaError_t stream_done(cudaStream_t handle, uint64_t* when) {
  ENTER;
  STREAM(stream, handle);
  if (stream->capture) {
    stream->capture->broken = true;
    FAIL(cudaErrorStreamCaptureUnsupported);
  }
  if (waits_for_capture(*stream)) FAIL(cudaErrorStreamCaptureImplicit);
  CHECK(reached());
  note_order("sync stream", stream->name());
  *when = stream->is_null ? horizon(*stream) : stream->busy;
  const uint64_t begin = now();
  tell(work_of('W', 0, 'S'), *stream, begin, std::max(begin, *when) - begin);
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CALL;
  uint64_t when;
  if (cudaError_t error = stream_done(handle, &when)) return error;
  sleep_until(when);
  return cudaSuccess;
}
static cudaError_t all_done(uint64_t* when) {
  ENTER;
  ANY_DEVICE;
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  CHECK(activate(current_device()));
  for (cudaStream_t stream : streams())
    if (stream->device == current_device() && stream->capture) {
      stream->capture->broken = true;
      FAIL(cudaErrorStreamCaptureUnsupported);
    }
  CHECK(reached());
  note_order("sync device", device(current_device()).null_stream.name());
  *when = device_done(current_device());
  const uint64_t begin = now();
  tell(work_of('W', 0, 'D'), device(current_device()).null_stream, begin, std::max(begin, *when) - begin);
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceSynchronize() {
  CALL;
  uint64_t when;
  if (cudaError_t error = all_done(&when)) return error;
  sleep_until(when);
  return cudaSuccess;
}
SIM_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, interaction);
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamAttachMemAsync(cudaStream_t handle, void*, size_t, unsigned) {
  ENTER;
  STREAM(stream, handle);
  return cudaSuccess;
}

// ---- work of the host in a stream ----
SIM_API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  ENTER;
  STREAM(stream, handle);
  note_host_function(*stream);
  return enqueue(stream, cudaGraphNodeTypeHost, 1000, [=] { function(data); }, "host function");
}
SIM_API cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function, void* data, unsigned) {
  ENTER;
  STREAM(stream, handle);
  if (stream->capture) FAIL(cudaErrorStreamCaptureUnsupported);
  note_host_function(*stream);
  return enqueue(stream, cudaGraphNodeTypeHost, 1000, [=] { function(handle, cudaSuccess, data); }, "callback");
}
