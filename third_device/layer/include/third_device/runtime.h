// What a backend's process knows about its devices, without PyTorch: initialisation, current device, streams.
//
// Torch-free on purpose, like everything in this folder: it compiles in seconds, and the tests run it alone under
// AddressSanitizer and ThreadSanitizer.
#pragma once

#include <third_device/driver.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace third_device {

// A driver call failed, or the call was wrong in itself (TD_INVALID).
struct TD_API Error : std::runtime_error {
  Error(td_status why, const std::string& text) : std::runtime_error(text), status(why) {}
  td_status status;
};

// Device or pinned memory is used up; the text carries the numbers.
struct TD_API OutOfMemory : Error {
  explicit OutOfMemory(const std::string& text) : Error(TD_OUT_OF_MEMORY, text) {}
};

TD_API const td_driver& driver();
// Another table in the place of third_device_driver()'s, or null for that one; while no device is in use.
TD_API void replace_driver(const td_driver* table) noexcept;
TD_API bool is_driver_replaced() noexcept;

// Throws Error (OutOfMemory for TD_OUT_OF_MEMORY) with the driver's own text unless `status` is TD_OK.
TD_API void check(td_status status, const char* what);

// What somebody who watches is told, with the addresses that the driver gave: of an event, memory or a stream, and of a
// second stream where one is meant. Never with a lock held: who watches may wait for the GIL.
enum class Happening {
  kEventCreation,
  kEventDeletion,
  kEventRecord,  // event, stream
  kEventWait,    // event, stream that waits
  kMemoryAllocation,
  kMemoryDeallocation,
  kStreamCreation,
  kDeviceSynchronization,  // neither
  kStreamSynchronization,
  kEventSynchronization,
};
using Watch = void (*)(Happening happening, const void* first, const void* second) noexcept;
TD_API extern std::atomic<Watch> watch;  // null at first, and again: nobody watches

inline void tell(Happening happening, const void* first = nullptr, const void* second = nullptr) noexcept {
  if (const Watch told = watch.load(std::memory_order_acquire)) told(happening, first, second);
}

// A stream is (device, id). Id 0 is the device's default stream; further ones come from two pools (normal, high).
using StreamId = int64_t;
constexpr StreamId kDefaultStream = 0;
constexpr int kStreamsPerPool = 8;

// How many devices there are; 0 without a driver. Starts nothing and never throws.
TD_API int device_count() noexcept;

// First use: starts the driver. Throws Error in a child forked after its parent did so.
TD_API void ensure_init();
TD_API bool is_initialized() noexcept;
// True in a process forked from one whose driver was started: devices cannot be used here.
TD_API bool is_bad_fork() noexcept;

// Throws Error unless 0 <= device < device_count().
TD_API void check_device(int device);

TD_API int current_device() noexcept;       // of this thread, 0 at first
TD_API void set_device(int device);         // checked
TD_API int exchange_device(int device);     // checked; a negative index changes nothing; returns the former device
TD_API void unchecked_set_device(int device) noexcept;

TD_API StreamId current_stream(int device) noexcept;  // of this thread
TD_API StreamId exchange_stream(int device, StreamId stream) noexcept;
// The next stream of the pool; priorities below 0 take from the high-priority pool.
TD_API StreamId stream_from_pool(int device, int priority);
// The driver's stream; made at its first use. Throws Error.
TD_API td_stream native_stream(int device, StreamId stream);
TD_API td_stream native_current_stream(int device);
// A driver's stream that somebody else made, as a stream of ours; one id for one stream. Its maker keeps it alive, and
// destroys it once no memory that was used on it is in use.
TD_API StreamId external_stream(int device, td_stream stream);

// What is enqueued on `later` from now on begins after what is enqueued on `earlier`, a stream of `device`. Throws Error.
TD_API void order_after(td_stream later, td_stream earlier, int device);

// The work of this thread's current stream on `device` so far is done when this returns. Throws Error.
TD_API void synchronize_current(int device);
TD_API void synchronize_device(int device);

namespace device_memory {

// A part of a device's cache for some allocations alone. Its blocks serve no others and are joined with no others', and
// empty_cache() leaves its memory to it as long as it lives. No number is given twice.
using PoolId = uint64_t;  // 0: the device's own blocks

TD_API PoolId make_pool(int device);
// Until leave_pool() the allocations of this thread come from the pool or, with a stream, those of every thread whose
// current stream of the device it is. Of several that fit the one that was entered last counts; those that are `first`, a
// capture's, come before all others. Throws Error.
TD_API void enter_pool(int device, PoolId pool, std::optional<StreamId> stream, bool first = false);
// Ends the last enter_pool() of this thread, or of a stream. Throws Error.
TD_API void leave_pool(int device, PoolId pool);
// One more holds it, whoever made it being the first, and has to drop it. Throws Error.
TD_API void hold_pool(int device, PoolId pool);
// Once the last one who holds it drops it, its memory is the device's own, and goes back to the driver as such; blocks in
// use follow when they are freed. Whoever is in it leaves it then. Throws Error.
TD_API void drop_pool(int device, PoolId pool);

}  // namespace device_memory
}  // namespace third_device
