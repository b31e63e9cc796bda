// Copies and fills. They are done when they are enqueued, or by the replay of a graph.
#include <cstring>
#include <string>

#include "activity.h"
#include "addresses.h"
#include "device.h"
#include "entries.h"

namespace {

using namespace sim;

uint64_t cost_of(size_t size) { return 4000 + size / 25; }  // ns, at 25 GB/s

struct Side {
  bool device, pinned;
};
Side side_of(const void* address) {
  Allocation* a = addresses().find(address);
  return {a && a->on_device(), a && !a->on_device()};
}
// Memory of a device that was freed, or never given to anybody. It is mapped here, and looks like the host's.
bool is_nobodys(const void* address) {
  if (addresses().find(address)) return false;
  for (int number = 0; number < device_count(); number++)
    if (device(number).memory.holds(address)) return true;
  return false;
}
bool fits(cudaMemcpyKind kind, Side to, Side from) {
  bool to_device = to.device || to.pinned, from_device = from.device || from.pinned;  // pinned memory is mapped
  switch (kind) {
    case cudaMemcpyHostToHost: return !to.device && !from.device;
    case cudaMemcpyHostToDevice: return to_device;
    case cudaMemcpyDeviceToHost: return from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch, width, height;
};
void run(const Copy& c) {
  if (c.height == 1) {
    memmove(c.to, c.from, c.width);
    return;
  }
  for (size_t row = 0; row < c.height; row++) memmove(c.to + row * c.to_pitch, c.from + row * c.from_pitch, c.width);
}

cudaError_t give(const Copy& c, cudaMemcpyKind kind, cudaStream_t handle, bool synchronous, uint64_t* wait) {
  ENTER;
  *wait = 0;
  STREAM(stream, handle);
  size_t size = c.width * c.height;
  if (!size) return cudaSuccess;
  if (!c.to || !c.from || unsigned(kind) > cudaMemcpyDefault) FAIL(cudaErrorInvalidValue);
  if (!addresses().covers(c.to, (c.height - 1) * c.to_pitch + c.width)) FAIL(cudaErrorInvalidValue);
  if (!addresses().covers(c.from, (c.height - 1) * c.from_pitch + c.width)) FAIL(cudaErrorInvalidValue);
  if (is_nobodys(c.to) || is_nobodys(c.from)) FAIL(cudaErrorInvalidValue);
  Side to = side_of(c.to), from = side_of(c.from);
  if (!fits(kind, to, from)) FAIL(cudaErrorInvalidValue);
  if (synchronous && breaks_captures()) FAIL(cudaErrorStreamCaptureImplicit);
  bool pageable = (!to.device && !to.pinned) || (!from.device && !from.pinned);
  if (stream->capture && pageable) {
    stream->capture->broken = true;
    FAIL(cudaErrorStreamCaptureUnsupported);
  }
  note_copy(*stream, c.to, c.from, c.width, c.height);
  // inside an operator whose result the CPU computes, only what the host reads is done
  std::function<void()> work;
  long long count;
  if (from.device && !to.device && c.height == 1 && (size == 1 || size == 4 || size == 8) && count_expected(&count))
    work = [c, count] { memcpy(c.to, &count, c.width); };
  else if (effects() || !to.device)
    work = [c] { run(c); };
  uint64_t begin = horizon(*stream);
  CHECK(enqueue(stream, cudaGraphNodeTypeMemcpy, cost_of(size), work, "copy " + std::to_string(size)));
  simcuda_work told = work_of('C', side_letter(c.from), side_letter(c.to));
  told.bytes = size;
  tell(told, *stream, begin, cost_of(size));
  if (!stream->capture && (synchronous || pageable)) {
    CHECK(reached());
    *wait = stream->busy;
  }
  return cudaSuccess;
}
cudaError_t copy(const Copy& c, cudaMemcpyKind kind, cudaStream_t handle, bool synchronous) {
  uint64_t wait;
  if (cudaError_t error = give(c, kind, handle, synchronous, &wait)) return error;
  if (wait) sleep_until(wait);
  return cudaSuccess;
}
Copy flat(void* to, const void* from, size_t size) { return {(char*)to, size, (const char*)from, size, size, 1}; }

cudaError_t fill(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  if (!width || !height) return cudaSuccess;
  Side side = side_of(to);
  if ((!side.device && !side.pinned) || !addresses().covers(to, (height - 1) * pitch + width)) FAIL(cudaErrorInvalidValue);
  note_set(*stream, to, value, width * height);
  std::function<void()> work;
  if (effects())
    work = [=] {
      for (size_t row = 0; row < height; row++) memset((char*)to + row * pitch, value, width);
    };
  uint64_t begin = horizon(*stream), cost = 2000 + width * height / 1000;
  CHECK(enqueue(stream, cudaGraphNodeTypeMemset, cost, work, "set " + std::to_string(width * height)));
  simcuda_work told = work_of('S', 0, side_letter(to));
  told.bytes = width * height, told.value = unsigned(value);
  tell(told, *stream, begin, cost);
  return cudaSuccess;
}

}  // namespace

SIM_API cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  CALL;
  return copy(flat(to, from, size), kind, nullptr, true);
}
SIM_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  CALL;
  return copy(flat(to, from, size), kind, stream, false);
}
SIM_API cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, size_t size) {
  CALL;
  return copy(flat(to, from, size), cudaMemcpyDefault, nullptr, true);
}
SIM_API cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, cudaStream_t stream) {
  CALL;
  return copy(flat(to, from, size), cudaMemcpyDefault, stream, false);
}
SIM_API cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                                 cudaMemcpyKind kind) {
  CALL;
  return copy({(char*)to, to_pitch, (const char*)from, from_pitch, width, height}, kind, nullptr, true);
}
SIM_API cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                      size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  CALL;
  return copy({(char*)to, to_pitch, (const char*)from, from_pitch, width, height}, kind, stream, false);
}
SIM_API cudaError_t cudaMemset(void* to, int value, size_t size) {
  CALL;
  return fill(to, size, value, size, 1, nullptr);
}
SIM_API cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  CALL;
  return fill(to, size, value, size, 1, stream);
}
SIM_API cudaError_t cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  CALL;
  return fill(to, pitch, value, width, height, nullptr);
}
SIM_API cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  CALL;
  return fill(to, pitch, value, width, height, stream);
}
