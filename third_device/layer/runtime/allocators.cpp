#include <third_device/allocators.h>
#include <third_device/graphs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace third_device {
namespace {

// Sizes in bytes. Requests are rounded to kUnit; small ones share segments of kSmallSegment, middling ones of
// kMiddleSegment, large ones get their own in steps of kLargeStep.
constexpr size_t kUnit = 512;
constexpr size_t kSmallLimit = size_t{1} << 20;
constexpr size_t kSmallSegment = size_t{2} << 20;
constexpr size_t kMiddleLimit = size_t{10} << 20;
constexpr size_t kMiddleSegment = size_t{20} << 20;
constexpr size_t kLargeStep = size_t{2} << 20;
// No memory is as large: sizes up to this can be rounded up, and a caller's negative size is above it.
constexpr size_t kMost = SIZE_MAX / 2;

size_t round_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

using Use = std::pair<int, StreamId>;  // device, stream

// Asks a driver that was put in the place of csrc/driver.cpp's without the lock: one in Python waits for the GIL, and
// Python's tensors are freed with it held. Any other is asked with the lock, so that no thread sees what is half done.
template <typename F>
auto unlocked(std::unique_lock<std::mutex>& hold, F&& call) {
  const bool open = is_driver_replaced();
  if (open) hold.unlock();
  auto result = call();
  if (open) hold.lock();
  return result;
}

// This thread asks the driver of a cache for memory, or gives it some back, and came here again from the driver: a
// function in Python may free tensors, and make some. It cannot wait for itself.
thread_local bool in_driver = false;

struct InDriver {
  bool before = std::exchange(in_driver, true);
  ~InDriver() { in_driver = before; }
};

// Whether this thread may wait for the device: one that is in the driver, or runs a function of a stream, may not; nobody
// may while a graph is captured, which that would end.
bool may_wait(std::unique_lock<std::mutex>& hold, int device) {
  if (capture_under_way.load(std::memory_order_acquire)) return false;
  if (!is_driver_replaced()) return true;
  if (in_driver) return false;
  const td_status status = unlocked(hold, [=] { return driver().device_synchronize(device); });
  if (status != TD_INVALID) check(status, "waiting for the device");
  return status == TD_OK;
}

// Memory that another thread moves at this moment is in no list: who runs out waits for it, if this thread may. To wait
// for the device gives the GIL back, which the other thread may need.
void wait_for_others(std::unique_lock<std::mutex>& hold, int device, const int& moving) {
  while (moving > 0 && may_wait(hold, device)) unlocked(hold, [] { return std::this_thread::yield(), TD_OK; });
}

// Returns what check() throws where work failed that nobody had waited for: no other call will tell of it. Of a lost device
// every call tells, and a thread that may not wait has not learned of any.
std::exception_ptr wait_for_device(int device) {
  const td_status status = driver().device_synchronize(device);
  if (status == TD_DEVICE_LOST || status == TD_INVALID) return nullptr;
  try {
    check(status, "waiting for the device");
    return nullptr;
  } catch (const Error&) {
    return std::current_exception();
  }
}

// Throws what was kept, once.
void rethrow_once(std::exception_ptr& untold) {
  if (untold) std::rethrow_exception(std::exchange(untold, nullptr));
}

// Events that were recorded at release; what they guard may be reused once all are done.
struct Pending {
  std::vector<td_event> events;
  std::exception_ptr failure;  // of work that record() waited for

  // Where no event can be recorded (the device is lost) it waits here: work that runs there may still use the memory, and
  // the events of other devices count all the same.
  static Pending record(const std::set<Use>& uses) {
    Pending made;
    for (const Use& use : uses) {
      td_event event = nullptr;
      try {
        check(driver().event_create(use.first, 0, &event), "making an event");
        check(driver().event_record(event, native_stream(use.first, use.second)), "recording an event");
        made.events.push_back(event);
      } catch (const Error&) {
        if (event != nullptr) driver().event_destroy(event);
        if (std::exception_ptr failed = wait_for_device(use.first)) made.failure = failed;
      }
    }
    return made;
  }
  // TD_NOT_READY keeps waiting; a failed event (a lost device) counts as done, nothing runs there any more.
  bool done() {
    while (!events.empty()) {
      if (driver().event_query(events.back()) == TD_NOT_READY) return false;
      driver().event_destroy(events.back());
      events.pop_back();
    }
    return true;
  }
  bool wait() {
    for (td_event event : events) driver().event_synchronize(event);
    for (td_event event : events) driver().event_destroy(event);
    events.clear();
    return true;
  }
};

using device_memory::PoolId;

// Tells threads apart, those that are gone, too.
uint64_t this_thread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = ++last;
  return number;
}

std::atomic<bool> cached{true};  // what is freed is kept for who comes next

struct Block {
  PoolId pool = 0;
  StreamId stream = 0;
  size_t size = 0;
  size_t requested = 0;
  char* address = nullptr;
  bool in_use = false;
  bool pending = false;  // released, and in no list of free blocks yet
  bool small = false;
  Block* before = nullptr;  // neighbours in the same segment
  Block* after = nullptr;
  std::set<Use> uses;
  bool whole() const { return before == nullptr && after == nullptr; }
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->pool != b->pool) return a->pool < b->pool;
    if (a->stream != b->stream) return a->stream < b->stream;
    if (a->size != b->size) return a->size < b->size;
    return a->address < b->address;
  }
};

void reset_statistics(MemoryStatistics& statistics, bool peaks) {
  for (Gauge* gauge : {&statistics.allocations, &statistics.segments, &statistics.allocated_bytes, &statistics.active_bytes,
                       &statistics.reserved_bytes, &statistics.requested_bytes}) {
    if (peaks) {
      gauge->peak = gauge->current;
    } else {
      gauge->added = gauge->removed = 0;
    }
  }
  if (!peaks) {
    statistics.retries = statistics.out_of_memory = 0;
    statistics.driver_allocations = statistics.driver_frees = 0;
  }
}

class DeviceCache {
 public:
  explicit DeviceCache(int device) : device_(device) {}

  Block* allocate(size_t bytes) {
    ensure_init();
    std::unique_lock<std::mutex> hold(mutex_);
    rethrow_once(untold_);
    if (bytes > kMost) {
      ++statistics_.out_of_memory;
      throw OutOfMemory(explain(hold, bytes));
    }
    guard_held_back(hold);
    reclaim();
    const StreamId stream = current_stream(device_);
    const PoolId pool = entered_.empty() ? 0 : find_pool(stream);
    const size_t size = round_up(bytes, kUnit);
    const bool small = size <= kSmallLimit;
    Block* block = take(pool, stream, size, small);
    if (block == nullptr) block = grow(hold, pool, stream, size, small, bytes);
    if (size_t rest = block->size - size; rest >= (small ? kUnit : kSmallLimit)) split(block, size);
    block->in_use = true;
    block->requested = bytes;
    statistics_.allocations.add(1);
    statistics_.allocated_bytes.add(static_cast<int64_t>(block->size));
    statistics_.active_bytes.add(static_cast<int64_t>(block->size));
    statistics_.requested_bytes.add(static_cast<int64_t>(bytes));
    note("alloc", *block);
    return block;
  }

  void release(Block* block) {
    std::unique_lock<std::mutex> hold(mutex_);
    block->in_use = false;
    statistics_.allocations.remove(1);
    statistics_.allocated_bytes.remove(static_cast<int64_t>(block->size));
    statistics_.requested_bytes.remove(static_cast<int64_t>(block->requested));
    note("free_requested", *block);
    if (!block->uses.empty() && !is_bad_fork()) {
      block->pending = true;
      held_back_.push_back(block);
      guard_held_back(hold);
    } else {
      give_back(block);
    }
    if (cached.load(std::memory_order_relaxed) || is_bad_fork()) return;
    try {
      release_segments(hold);
    } catch (const Error&) {
      untold_ = std::current_exception();
    }
  }

  void record_use(Block* block, Use use) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (use.first == device_ && use.second == block->stream) return;  // its own stream's order suffices
    block->uses.insert(use);
  }

  void empty() {
    std::unique_lock<std::mutex> hold(mutex_);
    release_segments(hold);
  }

  MemoryStatistics statistics() {
    std::lock_guard<std::mutex> hold(mutex_);
    return statistics_;
  }

  void reset(bool peaks) {
    std::lock_guard<std::mutex> hold(mutex_);
    reset_statistics(statistics_, peaks);
  }

  PoolId make_pool() {
    static std::atomic<PoolId> last{0};
    const PoolId made = ++last;
    std::lock_guard<std::mutex> hold(mutex_);
    pools_.emplace(made, 1);
    return made;
  }

  void enter_pool(PoolId pool, std::optional<StreamId> stream, bool first) {
    std::lock_guard<std::mutex> hold(mutex_);
    check_pool(pool);
    entered_.push_back({pool, stream, this_thread(), first});
  }

  void leave_pool(PoolId pool) {
    std::lock_guard<std::mutex> hold(mutex_);
    check_pool(pool);
    const auto last = std::find_if(entered_.rbegin(), entered_.rend(), [&](const Entered& one) {
      return one.pool == pool && (one.stream.has_value() || one.thread == this_thread());
    });
    if (last == entered_.rend()) {
      throw Error(TD_INVALID, name(pool) + " was not entered by this thread or for a stream, or was left already");
    }
    entered_.erase(std::next(last).base());
  }

  void hold_pool(PoolId pool) {
    std::lock_guard<std::mutex> hold(mutex_);
    check_pool(pool);
    ++pools_[pool];
  }

  void drop_pool(PoolId pool) {
    std::lock_guard<std::mutex> hold(mutex_);
    check_pool(pool);
    if (--pools_[pool] > 0) return;
    pools_.erase(pool);
    entered_.erase(std::remove_if(entered_.begin(), entered_.end(), [=](const Entered& one) { return one.pool == pool; }),
                   entered_.end());
    Block first;
    first.pool = pool;
    first.stream = std::numeric_limits<StreamId>::min();
    for (FreeBlocks* blocks : {&small_, &large_}) {
      for (auto at = blocks->lower_bound(&first); at != blocks->end() && (*at)->pool == pool;) {
        Block* block = *at;
        at = blocks->erase(at);
        block->pool = 0;
        blocks->insert(block);
      }
    }
  }

  std::vector<device_memory::SegmentInfo> snapshot() {
    std::lock_guard<std::mutex> hold(mutex_);
    std::vector<device_memory::SegmentInfo> segments;
    for (const auto& [address, head] : segments_) {
      device_memory::SegmentInfo segment{address, 0, head->stream, living(head->pool), head->small, {}};
      for (const Block* block = head; block != nullptr; block = block->after) {
        using device_memory::BlockState;
        const BlockState state = block->in_use    ? BlockState::kAllocated
                                 : block->pending ? BlockState::kPendingFree
                                                  : BlockState::kInactive;
        segment.size += block->size;
        segment.blocks.push_back({block->address, block->size, state == BlockState::kInactive ? 0 : block->requested, state});
      }
      segments.push_back(std::move(segment));
    }
    return segments;
  }

  void record_history(size_t entries) {
    std::lock_guard<std::mutex> hold(mutex_);
    history_limit_ = entries;
    while (entries > 0 && history_.size() > entries) history_.pop_front();
  }
  void forget_history() {
    std::lock_guard<std::mutex> hold(mutex_);
    history_.clear();
  }
  std::vector<device_memory::HistoryEntry> history() {
    std::lock_guard<std::mutex> hold(mutex_);
    return {history_.begin(), history_.end()};
  }

  void set_fraction(double fraction) {
    size_t available = 0;
    size_t total = 0;
    ensure_init();
    check(driver().memory_info(device_, &available, &total), "asking for memory");
    std::lock_guard<std::mutex> hold(mutex_);
    fraction_ = fraction;
    limited_ = fraction < 1;
    limit_ = static_cast<size_t>(fraction * static_cast<double>(total));
  }
  double fraction() {
    std::lock_guard<std::mutex> hold(mutex_);
    return fraction_;
  }

 private:
  using FreeBlocks = std::set<Block*, BySize>;
  FreeBlocks& free_blocks(bool small) { return small ? small_ : large_; }

  // The stream, or the thread, whose allocations come from a pool.
  struct Entered {
    PoolId pool;
    std::optional<StreamId> stream;
    uint64_t thread;
    bool first;
  };

  PoolId find_pool(StreamId stream) const {
    const auto fits = [=](const Entered& one) {
      return one.stream.has_value() ? *one.stream == stream : one.thread == this_thread();
    };
    const auto last = std::find_if(entered_.rbegin(), entered_.rend(), fits);
    const auto first = std::find_if(last, entered_.rend(), [=](const Entered& one) { return one.first && fits(one); });
    if (first != entered_.rend()) return first->pool;
    return last == entered_.rend() ? 0 : last->pool;
  }
  // The pool, or 0 where it was dropped.
  PoolId living(PoolId pool) const { return pool != 0 && pools_.count(pool) != 0 ? pool : 0; }
  std::string name(PoolId pool) const { return "pool " + std::to_string(pool) + " of device " + std::to_string(device_); }
  void check_pool(PoolId pool) const {
    if (living(pool) == 0) throw Error(TD_INVALID, "there is no " + name(pool) + ": it was never made, or was dropped");
  }

  [[gnu::noinline]] void remember(const char* action, const void* address, size_t size, StreamId stream, PoolId pool,
                                  size_t available = 0) {
    if (history_.size() >= history_limit_) history_.pop_front();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    history_.push_back({action, address, size, available, stream, living(pool), time});
  }
  void note(const char* action, const Block& block) {
    if (history_limit_ != 0) remember(action, block.address, block.size, block.stream, block.pool);
  }

  Block* take(PoolId pool, StreamId stream, size_t size, bool small) {
    Block key;
    key.pool = pool;
    key.stream = stream;
    key.size = size;
    FreeBlocks& blocks = free_blocks(small);
    auto found = blocks.lower_bound(&key);
    if (found == blocks.end() || (*found)->stream != stream || (*found)->pool != pool) return nullptr;
    Block* block = *found;
    blocks.erase(found);
    return block;
  }

  // While it asks the driver, or gives memory back, another thread may drop the pool.
  Block* grow(std::unique_lock<std::mutex>& hold, PoolId pool, StreamId stream, size_t size, bool small, size_t asked) {
    const size_t bytes = !cached.load(std::memory_order_relaxed) ? size
                         : small                                 ? kSmallSegment
                         : size < kMiddleLimit                   ? kMiddleSegment
                                                                 : round_up(size, kLargeStep);
    void* address = nullptr;
    td_status status = driver_allocate(hold, bytes, &address);
    size_t given = bytes;
    if (status == TD_OUT_OF_MEMORY) {
      wait_for_others(hold, device_, moving_);
      release_segments(hold);
      wait_for_others(hold, device_, moving_);
      if (Block* block = take(living(pool), stream, size, small)) return block;  // another thread's, which came meanwhile
      status = driver_allocate(hold, bytes, &address);
      if (status == TD_OUT_OF_MEMORY && bytes > size) {  // a whole segment does not fit, what was asked may
        given = size;
        status = driver_allocate(hold, size, &address);
      }
      if (status == TD_OK) ++statistics_.retries;
    }
    if (status == TD_OUT_OF_MEMORY) {
      ++statistics_.out_of_memory;
      throw OutOfMemory(explain(hold, asked));
    }
    check(status, "allocating device memory");
    auto* block = new Block;
    block->pool = living(pool);
    block->stream = stream;
    block->size = given;
    block->address = static_cast<char*>(address);
    block->small = small;
    segments_.emplace(block->address, block);
    note("segment_alloc", *block);
    statistics_.segments.add(1);
    statistics_.reserved_bytes.add(static_cast<int64_t>(given));
    return block;
  }

  td_status driver_allocate(std::unique_lock<std::mutex>& hold, size_t bytes, void** address) {
    if (limited_ && static_cast<size_t>(statistics_.reserved_bytes.current) + asked_ + bytes > limit_) return TD_OUT_OF_MEMORY;
    asked_ += bytes;
    ++moving_;
    td_status status = unlocked(hold, [&] {
      const InDriver inside;
      return driver().memory_alloc(device_, bytes, address);
    });
    --moving_;
    asked_ -= bytes;
    if (status == TD_OK) ++statistics_.driver_allocations;
    return status;
  }

  std::string explain(std::unique_lock<std::mutex>& hold, size_t asked) {
    size_t available = 0;
    size_t total = 0;
    unlocked(hold, [&] { return driver().memory_info(device_, &available, &total); });
    const StreamId stream = current_stream(device_);
    if (history_limit_ != 0) remember("oom", nullptr, asked, stream, find_pool(stream), available);
    return "out of memory on device " + std::to_string(device_) + ": tried to allocate " + std::to_string(asked) +
           " bytes; the device has " + std::to_string(total) + " bytes, " + std::to_string(available) +
           " of them free; " + std::to_string(statistics_.allocated_bytes.current) + " bytes are allocated by tensors, " +
           std::to_string(statistics_.reserved_bytes.current) + " bytes are reserved in the cache" +
           (limited_ ? ", which may take " + std::to_string(limit_) : "");
  }

  void split(Block* block, size_t size) {
    auto* rest = new Block;
    rest->pool = block->pool;
    rest->stream = block->stream;
    rest->small = block->small;
    rest->size = block->size - size;
    rest->address = block->address + size;
    rest->before = block;
    rest->after = block->after;
    if (rest->after != nullptr) rest->after->before = rest;
    block->after = rest;
    block->size = size;
    free_blocks(rest->small).insert(rest);
  }

  // A block that nobody needs returns to the free ones of its pool, joined with its free neighbours.
  void give_back(Block* block) {
    statistics_.active_bytes.remove(static_cast<int64_t>(block->size));
    block->uses.clear();
    block->pending = false;
    if (block->pool != 0) block->pool = living(block->pool);
    note("free_completed", *block);
    FreeBlocks& blocks = free_blocks(block->small);
    for (Block* neighbour : {block->before, block->after}) {
      if (neighbour == nullptr || blocks.erase(neighbour) == 0) continue;
      Block* first = neighbour == block->before ? neighbour : block;
      Block* second = first == neighbour ? block : neighbour;
      first->size += second->size;
      first->after = second->after;
      if (first->after != nullptr) first->after->before = first;
      delete second;
      block = first;
    }
    blocks.insert(block);
  }

  // Records events on the streams that use what was released. On one that is captured an event is the graph's, and tells
  // nothing of the work before it: then that waits for the end of the capture.
  void guard_held_back(std::unique_lock<std::mutex>& hold) {
    while (!held_back_.empty() && !capture_under_way.load(std::memory_order_acquire)) {
      Block* block = held_back_.front();
      held_back_.pop_front();
      ++moving_;
      Pending pending = unlocked(hold, [uses = std::exchange(block->uses, {})] { return Pending::record(uses); });
      --moving_;
      if (pending.failure) untold_ = pending.failure;
      pending_.emplace_back(std::move(pending), block);
    }
  }

  void reclaim() {
    for (size_t left = pending_.size(); left > 0; --left) {
      auto entry = std::move(pending_.front());
      pending_.pop_front();
      if (entry.first.done()) {
        give_back(entry.second);
      } else {
        pending_.push_back(std::move(entry));
      }
    }
  }

  // Throws Error, once all is given back, where work that nobody had waited for failed.
  void release_segments(std::unique_lock<std::mutex>& hold) {
    if (!may_wait(hold, device_)) return;  // work that nobody waited for may still use what would go
    guard_held_back(hold);
    ++moving_;
    while (!pending_.empty()) {
      auto entry = std::move(pending_.front());
      pending_.pop_front();
      unlocked(hold, [&] { return entry.first.wait(); });
      give_back(entry.second);
    }
    std::vector<Block*> leaving;
    for (FreeBlocks* blocks : {&small_, &large_}) {
      for (auto at = blocks->begin(); at != blocks->end();) {
        const bool leaves = (*at)->whole() && (*at)->pool == 0;
        if (leaves) {
          segments_.erase((*at)->address);
          leaving.push_back(*at);
        }
        at = leaves ? blocks->erase(at) : std::next(at);
      }
    }
    std::exception_ptr failed = unlocked(hold, [&] {
      const InDriver inside;
      std::exception_ptr failure = leaving.empty() ? nullptr : wait_for_device(device_);  // work may still read what was freed
      for (Block* block : leaving) driver().memory_free(device_, block->address);
      return failure;
    });
    for (Block* block : leaving) {
      ++statistics_.driver_frees;
      statistics_.segments.remove(1);
      statistics_.reserved_bytes.remove(static_cast<int64_t>(block->size));
      note("segment_free", *block);
      delete block;
    }
    --moving_;
    if (failed) untold_ = failed;
    rethrow_once(untold_);
  }

  const int device_;
  std::mutex mutex_;
  FreeBlocks small_, large_;
  std::map<char*, Block*> segments_;  // by address: the first block of each
  std::map<PoolId, int> pools_;  // how many hold each
  std::vector<Entered> entered_;  // the last one last
  std::deque<device_memory::HistoryEntry> history_;
  size_t history_limit_ = 0;
  std::deque<Block*> held_back_;  // released, and in use on other streams
  std::deque<std::pair<Pending, Block*>> pending_;
  double fraction_ = 1;
  bool limited_ = false;
  size_t limit_ = 0;  // bytes, where it is limited
  size_t asked_ = 0;  // bytes, of the driver at this moment
  int moving_ = 0;  // threads that have memory of this cache in no list at this moment
  std::exception_ptr untold_;  // of work that release() waited for, which throws nothing
  MemoryStatistics statistics_;
};

DeviceCache& cache_of(int device) {
  static auto* caches = [] {
    auto* made = new std::vector<std::unique_ptr<DeviceCache>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<DeviceCache>(i));
    return made;
  }();
  check_device(device);
  return *(*caches)[static_cast<size_t>(device)];
}

// Which block an address that was handed out belongs to. In shards, so that threads rarely meet.
class Directory {
 public:
  struct Entry {
    int device;
    Block* block;
  };
  void add(void* address, Entry entry) {
    Shard& shard = shard_of(address);
    std::lock_guard<std::mutex> hold(shard.mutex);
    shard.entries[address] = entry;
  }
  bool find(void* address, Entry* entry, bool remove) {
    Shard& shard = shard_of(address);
    std::lock_guard<std::mutex> hold(shard.mutex);
    auto found = shard.entries.find(address);
    if (found == shard.entries.end()) return false;
    *entry = found->second;
    if (remove) shard.entries.erase(found);
    return true;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<void*, Entry> entries;
  };
  Shard& shard_of(void* address) { return shards_[reinterpret_cast<uintptr_t>(address) / kUnit % shards_.size()]; }
  std::vector<Shard> shards_ = std::vector<Shard>(16);
};

Directory& directory() {
  static auto* instance = new Directory;
  return *instance;
}

}  // namespace

namespace device_memory {

void* allocate(int device, size_t bytes) {
  if (bytes == 0) return nullptr;
  Block* block = cache_of(device).allocate(bytes);
  void* address = block->address;
  directory().add(address, {device, block});
  tell(Happening::kMemoryAllocation, address);
  return address;
}

void release(void* address) noexcept {
  if (address == nullptr) return;
  Directory::Entry entry{};
  if (!directory().find(address, &entry, true)) return;
  tell(Happening::kMemoryDeallocation, address);
  cache_of(entry.device).release(entry.block);
}

size_t size(void* address) noexcept {
  Directory::Entry entry{};
  return address != nullptr && directory().find(address, &entry, false) ? entry.block->size : 0;  // fixed while in use
}

void record_use(void* address, int device, StreamId stream) {
  Directory::Entry entry{};
  if (address == nullptr || !directory().find(address, &entry, false)) return;
  cache_of(entry.device).record_use(entry.block, {device, stream});
}

void empty_cache(int device) {
  if (!is_initialized()) return;
  std::exception_ptr first;
  for (int i = 0; i < device_count(); ++i) {
    if (device >= 0 && device != i) continue;
    try {
      cache_of(i).empty();
    } catch (const Error&) {  // the other devices' memory goes back all the same
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void set_fraction(int device, double fraction) {
  if (!(fraction >= 0 && fraction <= 1)) throw Error(TD_INVALID, "a share of the memory is 0 to 1, not " + std::to_string(fraction));
  cache_of(device).set_fraction(fraction);
}
double fraction(int device) { return cache_of(device).fraction(); }
MemoryStatistics statistics(int device) { return cache_of(device).statistics(); }
void reset_peak(int device) { cache_of(device).reset(true); }
void reset_accumulated(int device) { cache_of(device).reset(false); }

PoolId make_pool(int device) { return cache_of(device).make_pool(); }
void enter_pool(int device, PoolId pool, std::optional<StreamId> stream, bool first) {
  cache_of(device).enter_pool(pool, stream, first);
}
void leave_pool(int device, PoolId pool) { cache_of(device).leave_pool(pool); }
void hold_pool(int device, PoolId pool) { cache_of(device).hold_pool(pool); }
void drop_pool(int device, PoolId pool) { cache_of(device).drop_pool(pool); }

void set_caching(bool on) noexcept { cached.store(on, std::memory_order_relaxed); }
bool caching() noexcept { return cached.load(std::memory_order_relaxed); }

std::vector<SegmentInfo> snapshot(int device) { return cache_of(device).snapshot(); }
void record_history(int device, size_t entries) { cache_of(device).record_history(entries); }
void forget_history(int device) { cache_of(device).forget_history(); }
std::vector<HistoryEntry> history(int device) { return cache_of(device).history(); }

}  // namespace device_memory

namespace pinned_memory {
namespace {

struct HostBlock {
  size_t size = 0;
  size_t requested = 0;
  bool in_use = false;
  std::set<Use> uses;
  Pending pending;
};

struct HostCache {
  std::mutex mutex;
  std::map<const char*, HostBlock> blocks;              // all, by address
  std::multimap<size_t, const char*> unused;            // by size
  std::deque<const char*> held_back;                    // released, as the other cache's are
  std::deque<const char*> waiting;                      // released, work still pending
  int moving = 0;                                       // threads that have a block in no list at this moment
  std::exception_ptr untold;                            // of work that release() waited for, which throws nothing
  MemoryStatistics statistics;

  std::map<const char*, HostBlock>::iterator holding(const void* address) {
    const char* at = static_cast<const char*>(address);
    auto after = blocks.upper_bound(at);
    if (after == blocks.begin()) return blocks.end();
    --after;
    return after->second.in_use && at < after->first + after->second.size ? after : blocks.end();
  }
  void reclaim() {
    for (size_t left = waiting.size(); left > 0; --left) {
      const char* address = waiting.front();
      waiting.pop_front();
      HostBlock& block = blocks[address];
      if (block.pending.done()) {
        unused.emplace(block.size, address);
      } else {
        waiting.push_back(address);
      }
    }
  }
  void guard_held_back(std::unique_lock<std::mutex>& hold) {
    while (!held_back.empty() && !capture_under_way.load(std::memory_order_acquire)) {
      const char* address = held_back.front();
      held_back.pop_front();
      HostBlock& block = blocks[address];  // of nobody else now
      ++moving;
      block.pending = unlocked(hold, [uses = std::exchange(block.uses, {})] { return Pending::record(uses); });
      --moving;
      if (block.pending.failure) untold = std::exchange(block.pending.failure, nullptr);
      waiting.push_back(address);
    }
  }
  // Returns whether some memory went back. That of work which this thread may not wait for stays.
  bool empty(std::unique_lock<std::mutex>& hold) {
    const int device = current_device();
    wait_for_others(hold, device, moving);
    const bool draining = !waiting.empty() && may_wait(hold, device);
    ++moving;
    while (draining && !waiting.empty()) {
      const char* address = waiting.front();
      waiting.pop_front();
      HostBlock& block = blocks[address];  // of nobody else now: neither in use nor in a list
      unlocked(hold, [&] { return block.pending.wait(); });
      unused.emplace(block.size, address);
    }
    --moving;
    const bool some = !unused.empty();
    for (const auto& [size, address] : unused) {
      driver().host_free(const_cast<char*>(address));
      blocks.erase(address);
      ++statistics.driver_frees;
      statistics.segments.remove(1);
      statistics.reserved_bytes.remove(static_cast<int64_t>(size));
    }
    unused.clear();
    return some;
  }
};

HostCache& host_cache() {
  static auto* instance = new HostCache;
  return *instance;
}

}  // namespace

void* allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  ensure_init();
  if (bytes > kMost) throw OutOfMemory("out of pinned host memory: tried to allocate " + std::to_string(bytes) + " bytes");
  size_t size = kUnit;  // powers of two, so that blocks find new users
  while (size < bytes) size *= 2;
  HostCache& cache = host_cache();
  std::unique_lock<std::mutex> hold(cache.mutex);
  rethrow_once(cache.untold);
  cache.guard_held_back(hold);
  cache.reclaim();
  const char* address = nullptr;
  if (auto found = cache.unused.find(size); found != cache.unused.end()) {
    address = found->second;
    cache.unused.erase(found);
  } else {
    void* made = nullptr;
    td_status status = driver().host_alloc(size, &made);
    if (status == TD_OUT_OF_MEMORY) {
      for (bool some = true; some && status == TD_OUT_OF_MEMORY;) {
        some = cache.empty(hold);
        status = driver().host_alloc(size, &made);
      }
      if (status == TD_OK) ++cache.statistics.retries;
      else ++cache.statistics.out_of_memory;
    }
    check(status, "allocating pinned host memory");
    ++cache.statistics.driver_allocations;
    cache.statistics.segments.add(1);
    cache.statistics.reserved_bytes.add(static_cast<int64_t>(size));
    address = static_cast<const char*>(made);
    cache.blocks[address].size = size;
  }
  HostBlock& block = cache.blocks[address];
  block.in_use = true;
  block.requested = bytes;
  cache.statistics.allocations.add(1);
  cache.statistics.allocated_bytes.add(static_cast<int64_t>(size));
  cache.statistics.requested_bytes.add(static_cast<int64_t>(bytes));
  return const_cast<char*>(address);
}

void release(void* address) noexcept {
  if (address == nullptr) return;
  HostCache& cache = host_cache();
  std::unique_lock<std::mutex> hold(cache.mutex);
  auto found = cache.blocks.find(static_cast<const char*>(address));
  if (found == cache.blocks.end() || !found->second.in_use) return;
  HostBlock& block = found->second;
  block.in_use = false;
  cache.statistics.allocations.remove(1);
  cache.statistics.allocated_bytes.remove(static_cast<int64_t>(block.size));
  cache.statistics.requested_bytes.remove(static_cast<int64_t>(block.requested));
  if (!block.uses.empty() && !is_bad_fork()) {
    cache.held_back.push_back(found->first);
    cache.guard_held_back(hold);
    return;
  }
  block.uses.clear();
  cache.unused.emplace(block.size, found->first);
}

bool contains(const void* address) noexcept {
  HostCache& cache = host_cache();
  std::lock_guard<std::mutex> hold(cache.mutex);
  return cache.holding(address) != cache.blocks.end();
}

bool record_use(const void* address, int device, StreamId stream) {
  HostCache& cache = host_cache();
  std::lock_guard<std::mutex> hold(cache.mutex);
  auto found = cache.holding(address);
  if (found == cache.blocks.end()) return false;
  found->second.uses.insert({device, stream});
  return true;
}

void empty_cache() {
  if (!is_initialized()) return;
  HostCache& cache = host_cache();
  std::unique_lock<std::mutex> hold(cache.mutex);
  cache.guard_held_back(hold);
  cache.reclaim();
  cache.empty(hold);
  rethrow_once(cache.untold);
}

MemoryStatistics statistics() {
  HostCache& cache = host_cache();
  std::lock_guard<std::mutex> hold(cache.mutex);
  return cache.statistics;
}

void reset_peak() {
  HostCache& cache = host_cache();
  std::lock_guard<std::mutex> hold(cache.mutex);
  reset_statistics(cache.statistics, true);
}

void reset_accumulated() {
  HostCache& cache = host_cache();
  std::lock_guard<std::mutex> hold(cache.mutex);
  reset_statistics(cache.statistics, false);
}

}  // namespace pinned_memory
}  // namespace third_device
