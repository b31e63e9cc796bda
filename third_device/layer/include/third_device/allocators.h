// The caching allocators: device memory per (device, stream), pinned host memory for all.
//
// Both hand memory back to the driver only on empty_cache() or when it runs out, and neither lets a block be reused
// before the work that still needs it is done: on its own stream order sees to that, on others record_use() does.
#pragma once

#include <third_device/runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace third_device {

// One counter over time. Bytes or a count, as its user says.
struct Gauge {
  int64_t current = 0, peak = 0, added = 0, removed = 0;
  void add(int64_t amount) {
    current += amount;
    added += amount;
    if (current > peak) peak = current;
  }
  void remove(int64_t amount) {
    current -= amount;
    removed += amount;
  }
};

struct MemoryStatistics {
  Gauge allocations, segments;                                       // counts
  Gauge allocated_bytes, active_bytes, reserved_bytes, requested_bytes;
  int64_t retries = 0;           // driver allocations that succeeded only after the cache was emptied
  int64_t out_of_memory = 0;     // allocations that failed for good
  int64_t driver_allocations = 0, driver_frees = 0;
};

namespace device_memory {

// `bytes` on this thread's current stream of `device`; null for 0 bytes. Throws OutOfMemory with the numbers, Error.
TD_API void* allocate(int device, size_t bytes);
// Never throws; null is allowed.
TD_API void release(void* address) noexcept;
// Bytes that the statistics count for the block that starts at `address`; 0 if none does.
TD_API size_t size(void* address) noexcept;
// The block that holds `address` (its start) is in use on `stream` too: no reuse before that stream's work so far.
TD_API void record_use(void* address, int device, StreamId stream);
// Gives every unused segment of `device` (all devices if negative) back. Throws Error.
TD_API void empty_cache(int device = -1);
// The cache of `device` takes no more than this share of its memory from the driver: 1 at first.
TD_API void set_fraction(int device, double fraction);
TD_API double fraction(int device);
TD_API MemoryStatistics statistics(int device);
TD_API void reset_peak(int device);
TD_API void reset_accumulated(int device);

// False: each allocation is one of the driver's, and is given back once it is freed, which waits for the device.
TD_API void set_caching(bool on) noexcept;
TD_API bool caching() noexcept;

enum class BlockState {
  kAllocated,
  kPendingFree,  // released, and another stream still uses it
  kInactive,
};
struct BlockInfo {
  const void* address;
  size_t size, requested;  // bytes; nothing is requested of an inactive one
  BlockState state;
};
// What the driver gave at once, block by block.
struct SegmentInfo {
  const void* address;
  size_t size;  // bytes
  StreamId stream;
  PoolId pool;
  bool small;  // for requests up to 1 MiB
  std::vector<BlockInfo> blocks;
};
TD_API std::vector<SegmentInfo> snapshot(int device);  // by address

// One step of the allocator.
struct HistoryEntry {
  const char* action;   // alloc, free_requested, free_completed, segment_alloc, segment_free, oom
  const void* address;  // null for oom
  size_t size;          // bytes
  size_t available;     // bytes that the driver has left, for oom
  StreamId stream;
  PoolId pool;
  int64_t time;  // microseconds of the system clock
};
// Keeps the last `entries` steps of `device`; 0 ends that and forgets nothing.
TD_API void record_history(int device, size_t entries);
TD_API void forget_history(int device);
TD_API std::vector<HistoryEntry> history(int device);

}  // namespace device_memory

namespace pinned_memory {

TD_API void* allocate(size_t bytes);  // null for 0 bytes. Throws OutOfMemory, Error.
TD_API void release(void* address) noexcept;
// True for any address inside an allocation that is in use.
TD_API bool contains(const void* address) noexcept;
// The block that holds `address` (anywhere inside) is used by a copy on `stream`. False if there is none.
TD_API bool record_use(const void* address, int device, StreamId stream);
TD_API void empty_cache();
TD_API MemoryStatistics statistics();
TD_API void reset_peak();
TD_API void reset_accumulated();

}  // namespace pinned_memory
}  // namespace third_device
