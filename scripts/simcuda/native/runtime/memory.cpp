// Allocation: the device's own, pooled in stream order, pinned, registered, managed, and shared between processes.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "activity.h"
#include "addresses.h"
#include "device.h"
#include "entries.h"

namespace {

using namespace sim;

constexpr size_t kPage = 4096, kPoolChunk = size_t(32) << 20;
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

cudaError_t take(int number, size_t size, Memory kind, void** out) {
  Device& d = device(number);
  size_t offset, taken;
  if (!d.memory.allocate(size, &offset, &taken)) return cudaErrorMemoryAllocation;
  *out = addresses().add(d.memory.at(offset), taken, number, kind).base;
  return cudaSuccess;
}
void give_back(const Allocation& a) {
  Device& d = device(a.device);
  d.memory.release(d.memory.offset_of(a.base));
  addresses().remove(a.base);
}

char* host_pages(size_t size) {
  void* p = mmap(nullptr, round_up(size, kPage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (char*)p;
}

void pool_used(cudaMemPool_t pool, int64_t change) {
  pool->used += uint64_t(change);
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved = std::max<uint64_t>(pool->reserved, round_up(pool->used, kPoolChunk));
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
}
// At a synchronisation the driver returns what lies above the threshold; here at the free itself.
void pool_shrink(cudaMemPool_t pool, uint64_t keep) {
  pool->reserved = std::max<uint64_t>(round_up(pool->used, kPoolChunk), std::min(pool->reserved, keep));
}

// What a node of a graph allocates has one address at every launch. So the range goes back only when the memory is
// freed and no graph or program is left that would allocate it again; a free ends its life until the next launch.
void set_live(Allocation* a, bool live) {
  a->live = live;
  if (!a->live && !a->held) give_back(*a);
}
Allocation* find_of_graph(const void* address) {
  Allocation* a = addresses().find(address);
  return a && a->base == address && a->memory == Memory::graph ? a : nullptr;
}
std::function<void()> set_live_at_launch(void* address, bool live) {
  return [=] {
    std::lock_guard<std::recursive_mutex> lock(world());
    if (Allocation* a = find_of_graph(address)) set_live(a, live);
  };
}
// For the node that allocates it, and for the programs made of that node.
std::shared_ptr<void> hold_for_node(Allocation* a) {
  a->held = true;
  return {a->base, [](void* address) {
            std::lock_guard<std::recursive_mutex> lock(world());
            if (Allocation* held = find_of_graph(address)) {
              held->held = false;
              set_live(held, held->live);
            }
          }};
}

}  // namespace

// ---- of the device ----
SIM_API cudaError_t cudaMalloc(void** out, size_t size) {
  CALL;
  ENTER;
  ANY_DEVICE;
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  CHECK(activate(current_device()));
  *out = nullptr;
  if (!size) return cudaSuccess;
  note_allocation("malloc", size, current_device());
  CHECK(take(current_device(), size, Memory::device, out));
  return cudaSuccess;
}
SIM_API cudaError_t cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  *pitch = round_up(width, 512);
  return cudaMalloc(out, *pitch * height);
}
SIM_API cudaError_t cudaMallocManaged(void** out, size_t size, unsigned flags) {
  ENTER;
  ANY_DEVICE;
  CHECK(activate(current_device()));
  if (!size) FAIL(cudaErrorInvalidValue);
  char* p = host_pages(size);
  if (!p) FAIL(cudaErrorMemoryAllocation);
  addresses().add(p, round_up(size, kPage), current_device(), Memory::managed, flags);
  note_allocation("malloc managed", size, current_device());
  *out = p;
  return cudaSuccess;
}
static cudaError_t release(void* address, uint64_t* when) {
  ENTER;
  ANY_DEVICE;
  *when = 0;
  CHECK(activate(current_device()));
  if (!address) return cudaSuccess;
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  Allocation* a = addresses().find(address);
  if (!a || a->base != address || !a->on_device() || a->memory == Memory::reserved || a->memory == Memory::imported)
    FAIL(cudaErrorInvalidValue);
  if (a->memory == Memory::graph && !a->live) FAIL(cudaErrorInvalidValue);
  note_allocation("free", a->size, a->device);
  *when = device_done(a->device);
  if (a->memory == Memory::managed) {
    munmap(a->base, a->size);
    addresses().remove(a->base);
    return cudaSuccess;
  }
  if (a->memory == Memory::graph) {
    set_live(a, false);
    return cudaSuccess;
  }
  if (a->memory == Memory::pooled) pool_used(&device(a->device).pool, -int64_t(a->size));
  give_back(*a);
  return cudaSuccess;
}
SIM_API cudaError_t cudaFree(void* address) {  // waits for the device, as the real one does
  CALL;
  uint64_t when;
  if (cudaError_t error = release(address, &when)) return error;
  if (when) sleep_until(when);
  return cudaSuccess;
}
SIM_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  ENTER;
  ANY_DEVICE;
  CHECK(activate(current_device()));
  const Arena& arena = device(current_device()).memory;
  *total = arena.limit();
  *free = arena.limit() - arena.used();
  return cudaSuccess;
}

// ---- in stream order ----
SIM_API cudaError_t cudaMallocAsync(void** out, size_t size, cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  *out = nullptr;
  if (!size) return cudaSuccess;
  note_allocation("malloc async", size, stream->device);
  if (stream->capture && stream->capture->broken) FAIL(cudaErrorStreamCaptureInvalidated);
  CHECK(take(stream->device, size, stream->capture ? Memory::graph : Memory::pooled, out));
  if (stream->capture) {
    std::shared_ptr<void> memory = hold_for_node(addresses().find(*out));
    CHECK(enqueue(stream, cudaGraphNodeTypeMemAlloc, 0, set_live_at_launch(*out, true), "malloc"));
    stream->tail.back()->memory = std::move(memory);
    return cudaSuccess;
  }
  pool_used(&device(stream->device).pool, int64_t(addresses().find(*out)->size));
  return cudaSuccess;
}
SIM_API cudaError_t cudaMallocFromPoolAsync(void** out, size_t size, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(out, size, stream);
}
SIM_API cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  if (!address) return cudaSuccess;
  Allocation* a = addresses().find(address);
  const bool of_graph = a && a->memory == Memory::graph;
  if (!a || a->base != address || (of_graph ? !a->live : a->memory != Memory::pooled)) FAIL(cudaErrorInvalidValue);
  if (stream->capture) {
    const auto& nodes = stream->capture->graph->nodes;
    auto allocates_it = [&](auto& node) { return node->memory.get() == address; };
    const bool own = std::any_of(nodes.rbegin(), nodes.rend(), allocates_it);
    auto work = of_graph ? set_live_at_launch(address, false) : nullptr;
    CHECK(enqueue(stream, cudaGraphNodeTypeMemFree, 0, std::move(work), "free"));
    if (own) a->live = false;  // it lives within a launch only, and goes with the graph that is never launched
    return cudaSuccess;
  }
  note_allocation("free async", a->size, a->device);
  if (of_graph) {
    set_live(a, false);
    return cudaSuccess;
  }
  cudaMemPool_t pool = &device(a->device).pool;
  pool_used(pool, -int64_t(a->size));
  give_back(*a);
  pool_shrink(pool, pool->threshold);
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int number) {
  ENTER;
  VALID_DEVICE(number);
  CHECK(activate(number));
  *out = &device(number).pool;
  return cudaSuccess;
}
SIM_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* out, int number) { return cudaDeviceGetDefaultMemPool(out, number); }
SIM_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  ENTER;
  switch (which) {
    case cudaMemPoolReuseFollowEventDependencies: case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: *(int*)value = pool->reuse[int(which) - 1]; break;
    case cudaMemPoolAttrReleaseThreshold: *(uint64_t*)value = pool->threshold; break;
    case cudaMemPoolAttrReservedMemCurrent: *(uint64_t*)value = pool->reserved; break;
    case cudaMemPoolAttrReservedMemHigh: *(uint64_t*)value = pool->reserved_high; break;
    case cudaMemPoolAttrUsedMemCurrent: *(uint64_t*)value = pool->used; break;
    case cudaMemPoolAttrUsedMemHigh: *(uint64_t*)value = pool->used_high; break;
    default: FAIL(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
SIM_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
  ENTER;
  switch (which) {
    case cudaMemPoolReuseFollowEventDependencies: case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: pool->reuse[int(which) - 1] = *(int*)value; break;
    case cudaMemPoolAttrReleaseThreshold: pool->threshold = *(uint64_t*)value; break;
    case cudaMemPoolAttrReservedMemHigh: pool->reserved_high = pool->reserved; break;
    case cudaMemPoolAttrUsedMemHigh: pool->used_high = pool->used; break;
    default: FAIL(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
SIM_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc* list, size_t count) {
  ENTER;
  for (size_t i = 0; i < count; i++) VALID_DEVICE(list[i].location.id);
  return cudaSuccess;  // every device reaches every other's pool
}
SIM_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  ENTER;
  pool_shrink(pool, keep);
  return cudaSuccess;
}

// ---- of the host ----
SIM_API cudaError_t cudaHostAlloc(void** out, size_t size, unsigned flags) {
  CALL;
  ENTER;
  ANY_DEVICE;
  if (breaks_captures()) FAIL(cudaErrorStreamCaptureUnsupported);
  CHECK(activate(current_device()));
  *out = nullptr;
  if (!size) return cudaSuccess;
  char* p = size < (size_t(1) << 40) ? host_pages(size) : nullptr;
  if (!p) FAIL(cudaErrorMemoryAllocation);
  addresses().add(p, round_up(size, kPage), current_device(), Memory::pinned, flags);
  note_allocation("host alloc", size);
  *out = p;
  return cudaSuccess;
}
SIM_API cudaError_t cudaMallocHost(void** out, size_t size) { return cudaHostAlloc(out, size, cudaHostAllocDefault); }
SIM_API cudaError_t cudaFreeHost(void* address) {
  CALL;
  ENTER;
  if (!address) return cudaSuccess;
  Allocation* a = addresses().find(address);
  if (!a || a->base != address || a->memory != Memory::pinned) FAIL(cudaErrorInvalidValue);
  note_allocation("host free", a->size);
  munmap(a->base, a->size);
  addresses().remove(a->base);
  return cudaSuccess;
}
SIM_API cudaError_t cudaHostRegister(void* address, size_t size, unsigned flags) {
  ENTER;
  ANY_DEVICE;
  if (!address || !size) FAIL(cudaErrorInvalidValue);
  CHECK(activate(current_device()));
  if (addresses().find(address)) FAIL(cudaErrorHostMemoryAlreadyRegistered);
  addresses().add((char*)address, size, current_device(), Memory::registered, flags);
  note_allocation("host register", size);
  return cudaSuccess;
}
SIM_API cudaError_t cudaHostUnregister(void* address) {
  ENTER;
  Allocation* a = addresses().find(address);
  if (!a || a->base != address || a->memory != Memory::registered) FAIL(cudaErrorHostMemoryNotRegistered);
  note_allocation("host unregister", a->size);
  addresses().remove(a->base);
  return cudaSuccess;
}
SIM_API cudaError_t cudaHostGetDevicePointer(void** out, void* address, unsigned) {
  ENTER;
  Allocation* a = addresses().find(address);
  if (!a || !a->on_host()) FAIL(cudaErrorInvalidValue);
  *out = address;
  return cudaSuccess;
}
SIM_API cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  ENTER;
  Allocation* a = addresses().find(address);
  if (!a || a->on_device()) FAIL(cudaErrorInvalidValue);
  *flags = a->flags;
  return cudaSuccess;
}
SIM_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, const void* address) {
  ENTER;
  memset(out, 0, sizeof *out);
  out->device = cudaInvalidDeviceId;
  out->type = cudaMemoryTypeUnregistered;
  Allocation* a = addresses().find(address);
  if (!a) return cudaSuccess;
  out->device = a->device;
  out->devicePointer = (void*)address;
  out->type = a->memory == Memory::managed ? cudaMemoryTypeManaged : a->on_device() ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
  if (a->on_host()) out->hostPointer = (void*)address;
  return cudaSuccess;
}

// ---- managed memory: hints have no effect where all memory is the host's ----
SIM_API cudaError_t cudaMemAdvise(const void* address, size_t, cudaMemoryAdvise, int) {
  ENTER;
  Allocation* a = addresses().find(address);
  return a && a->memory == Memory::managed ? cudaSuccess : fail(cudaErrorInvalidValue, __func__);
}
SIM_API cudaError_t cudaMemPrefetchAsync(const void* address, size_t, int, cudaStream_t) {
  ENTER;
  Allocation* a = addresses().find(address);
  return a && a->memory == Memory::managed ? cudaSuccess : fail(cudaErrorInvalidValue, __func__);
}

// ---- between processes: the device's memory is a file of the process that owns it ----
namespace {
struct IpcMemory {
  int process, file, device;
  size_t offset, size;
};
}  // namespace
SIM_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* address) {
  ENTER;
  Allocation* a = addresses().find(address);
  if (!a || a->memory != Memory::device) FAIL(cudaErrorInvalidValue);
  const Arena& arena = device(a->device).memory;
  IpcMemory handle{getpid(), arena.file(), physical_of(a->device), arena.offset_of(a->base), a->size};
  static_assert(sizeof handle <= sizeof *out);
  memset(out, 0, sizeof *out);
  memcpy(out, &handle, sizeof handle);
  return cudaSuccess;
}
SIM_API cudaError_t cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t packed, unsigned) {
  ENTER;
  IpcMemory handle;
  memcpy(&handle, &packed, sizeof handle);
  if (handle.process == getpid()) FAIL(cudaErrorDeviceUninitialized);
  CHECK(activate(current_device()));
  std::string path = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) FAIL(cudaErrorMapBufferObjectFailed);
  size_t first = handle.offset / kPage * kPage, size = round_up(handle.offset + handle.size, kPage) - first;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, off_t(first));
  close(file);
  if (p == MAP_FAILED) FAIL(cudaErrorMapBufferObjectFailed);
  addresses().add((char*)p, size, current_device(), Memory::imported);
  *out = (char*)p + (handle.offset - first);
  return cudaSuccess;
}
SIM_API cudaError_t cudaIpcCloseMemHandle(void* address) {
  ENTER;
  Allocation* a = addresses().find(address);
  if (!a || a->memory != Memory::imported) FAIL(cudaErrorInvalidValue);
  munmap(a->base, a->size);
  addresses().remove(a->base);
  return cudaSuccess;
}

// ---- for the driver's stand-in ----
SIM_API int simcuda_physical_allocate(int number, size_t size, size_t* offset) {
  std::lock_guard<std::recursive_mutex> lock(world());
  size_t taken;
  if (activate(number) != cudaSuccess || !device(number).memory.allocate(size, offset, &taken)) return 0;
  note_allocation("physical", size, number);
  return 1;
}
SIM_API void simcuda_physical_release(int number, size_t offset) {
  std::lock_guard<std::recursive_mutex> lock(world());
  device(number).memory.release(offset);
}
SIM_API int simcuda_physical_file(int number) { return device(number).memory.file(); }
SIM_API void simcuda_reserve(void* address, size_t size, int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  addresses().add((char*)address, size, number, Memory::reserved);
}
SIM_API void simcuda_unreserve(void* address) {
  std::lock_guard<std::recursive_mutex> lock(world());
  addresses().remove((char*)address);
}
// A reserved range is of the device whose memory was mapped into it last.
SIM_API void simcuda_reserved_for(void* address, int number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  if (Allocation* a = addresses().find(address)) a->device = number;
}
// 0 no memory of CUDA's, 1 host, 2 device; `base`, `size` and `number` of its allocation.
SIM_API int simcuda_address(const void* address, void** base, size_t* size, int* number) {
  std::lock_guard<std::recursive_mutex> lock(world());
  Allocation* a = addresses().find(address);
  if (!a) return 0;
  *base = a->base, *size = a->size, *number = a->device;
  return a->on_device() ? 2 : 1;
}
