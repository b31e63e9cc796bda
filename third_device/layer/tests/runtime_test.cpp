// The torch-free half of the layer on the simulated driver. Built and run by tests/contract/test_runtime_cpp.py, plain
// and under AddressSanitizer and ThreadSanitizer. Exit status 0 and "N checks passed", or the first failure and 1.
#include <third_device/driver.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <third_device/allocators.h>
#include <third_device/graphs.h>
#include <third_device/runtime.h>
#include <third_device/sim_driver.h>

extern "C" const td_driver* third_device_driver() { return third_device::sim::sim_driver(); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers catch SIGSEGV themselves, and fork with threads is not theirs
#else
constexpr bool kSanitized = false;
#endif

using namespace third_device;

namespace {

std::atomic<int> passed{0};

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      std::printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);       \
      std::exit(1);                                                             \
    }                                                                           \
    ++passed;                                                                   \
  } while (0)

template <typename F>
std::string error_of(F&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

const td_driver& d() { return driver(); }

// Work that blocks its stream until the gate opens.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> passed_through{false};
  static td_status run(void* self) {
    auto* gate = static_cast<Gate*>(self);
    while (!gate->open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate->passed_through = true;
    return TD_OK;
  }
};

void only_first_use_starts_it() {
  CHECK(device_count() == 2);
  CHECK(!is_initialized());
  ensure_init();
  ensure_init();
  CHECK(is_initialized());
}

void a_wait_is_for_what_was_enqueued_before_it() {
  td_stream stream = native_stream(0, stream_from_pool(0, 0));
  Gate first, later;
  CHECK(d().stream_call(stream, Gate::run, &first) == TD_OK);
  std::atomic<bool> waited{false};
  std::thread waits([&] { waited = d().stream_synchronize(stream) == TD_OK; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits by now
  CHECK(d().stream_call(stream, Gate::run, &later) == TD_OK);
  first.open = true;
  for (int i = 0; i < 10000 && !waited; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(waited && !later.passed_through);
  later.open = true;
  waits.join();
  CHECK(d().stream_synchronize(stream) == TD_OK && later.passed_through);
}

void devices_are_checked_and_per_thread() {
  CHECK(error_of([] { set_device(2); }).find("2 devices") != std::string::npos);
  CHECK(!error_of([] { set_device(-1); }).empty());
  set_device(1);
  std::thread([] { CHECK(current_device() == 0); }).join();
  CHECK(exchange_device(0) == 1);
  CHECK(exchange_device(-1) == 0);
  CHECK(current_device() == 0);
}

void streams_have_order_and_events_join_them() {
  StreamId first = stream_from_pool(0, 0);
  StreamId second = stream_from_pool(0, -1);
  CHECK(first != second && first != kDefaultStream);
  td_stream a = native_stream(0, first);
  td_stream b = native_stream(1, stream_from_pool(1, 0));
  Gate gate;
  CHECK(d().stream_call(a, Gate::run, &gate) == TD_OK);
  td_event event = nullptr;
  CHECK(d().event_create(0, 1, &event) == TD_OK);
  CHECK(d().event_query(event) == TD_OK);  // never recorded
  CHECK(d().event_record(event, a) == TD_OK);
  CHECK(d().stream_wait(b, event) == TD_OK);  // another device's stream waits
  CHECK(d().stream_query(a) == TD_NOT_READY);
  CHECK(d().stream_query(b) == TD_NOT_READY);
  CHECK(d().event_query(event) == TD_NOT_READY);
  CHECK(d().stream_query(native_stream(0, second)) == TD_OK);  // an unrelated one does not
  gate.open = true;
  CHECK(d().stream_synchronize(b) == TD_OK);
  CHECK(gate.passed_through);
  CHECK(d().event_query(event) == TD_OK);
  CHECK(d().stream_synchronize(a) == TD_OK && d().stream_query(a) == TD_OK);
  td_event end = nullptr;
  CHECK(d().event_create(0, 1, &end) == TD_OK);
  CHECK(d().event_record(end, a) == TD_OK && d().event_synchronize(end) == TD_OK);
  double milliseconds = -1;
  CHECK(d().event_elapsed(event, end, &milliseconds) == TD_OK && milliseconds > 0);
  td_event untimed = nullptr;
  CHECK(d().event_create(0, 0, &untimed) == TD_OK);
  CHECK(d().event_elapsed(event, untimed, &milliseconds) == TD_INVALID);
  for (int time = 0; time < 500; ++time) {  // an event that is done leaves its stream idle
    CHECK(d().event_record(end, a) == TD_OK && d().stream_wait(b, end) == TD_OK);
    CHECK(d().stream_synchronize(b) == TD_OK && d().stream_query(a) == TD_OK);
  }
  for (td_event each : {event, end, untimed}) d().event_destroy(each);
}

void copies_go_round() {
  std::vector<int> host(1 << 16), back(1 << 16);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i * 7);
  const size_t bytes = host.size() * sizeof(int);
  void* near = device_memory::allocate(0, bytes);
  void* far = device_memory::allocate(1, bytes);
  td_stream stream = native_stream(0, 0);
  CHECK(d().copy(near, 0, host.data(), TD_HOST, bytes, stream) == TD_OK);
  CHECK(d().copy(far, 1, near, 0, bytes, stream) == TD_OK);
  CHECK(d().copy(back.data(), TD_HOST, far, 1, bytes, stream) == TD_OK);
  CHECK(d().stream_synchronize(stream) == TD_OK);
  CHECK(host == back);
  td_memory kind{};
  int owner = -9;
  CHECK(d().memory_owner(static_cast<char*>(far) + 17, &kind, &owner) == TD_OK);
  CHECK(kind == TD_MEMORY_DEVICE && owner == 1);
  CHECK(d().memory_owner(host.data(), &kind, &owner) == TD_OK && kind == TD_MEMORY_UNKNOWN);
  device_memory::release(near);
  device_memory::release(far);
}

void memory_is_cached_split_and_joined() {
  device_memory::empty_cache();
  device_memory::reset_accumulated(0);
  void* first = device_memory::allocate(0, 1000);
  void* second = device_memory::allocate(0, 3000);
  CHECK(first != second);
  CHECK(device_memory::size(first) == 1024 && device_memory::size(static_cast<char*>(first) + 1) == 0);
  CHECK(device_memory::statistics(0).driver_allocations == 1);  // one small segment holds both
  device_memory::release(first);
  CHECK(device_memory::allocate(0, 1024) == first);  // reuse: 1000 was rounded to 1024
  device_memory::release(first);
  device_memory::release(second);
  CHECK(device_memory::allocate(0, 4096) == first);  // the neighbours were joined again
  device_memory::release(first);
  CHECK(device_memory::allocate(0, 0) == nullptr);
  device_memory::release(nullptr);
  device_memory::empty_cache(0);
  MemoryStatistics now = device_memory::statistics(0);
  CHECK(now.reserved_bytes.current == 0 && now.allocated_bytes.current == 0 && now.active_bytes.current == 0);
  CHECK(now.allocations.current == 0 && now.allocations.added == now.allocations.removed);
  CHECK(now.segments.current == 0 && now.requested_bytes.current == 0);
}

void other_streams_hold_memory_back() {
  StreamId side = stream_from_pool(0, 0);
  void* address = device_memory::allocate(0, 2048);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, side), Gate::run, &gate) == TD_OK);
  device_memory::record_use(address, 0, side);
  device_memory::release(address);
  void* other = device_memory::allocate(0, 2048);
  CHECK(other != address);
  CHECK(device_memory::statistics(0).active_bytes.current > device_memory::statistics(0).allocated_bytes.current);
  gate.open = true;
  CHECK(d().stream_synchronize(native_stream(0, side)) == TD_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the event is done right after
  synchronize_device(0);
  void* again = device_memory::allocate(0, 2048);
  CHECK(again == address);
  device_memory::release(other);
  device_memory::release(again);
}

void running_out_tells_the_numbers() {
  device_memory::empty_cache();
  CHECK(d().control("memory_bytes", 8 << 20) == TD_OK);
  void* most = device_memory::allocate(0, 6 << 20);  // wanted 20 MiB for the segment, fell back to what was asked
  std::string text = error_of([] { device_memory::allocate(0, 4 << 20); });
  CHECK(text.find("4194304") != std::string::npos && text.find("8388608") != std::string::npos);
  CHECK(device_memory::statistics(0).out_of_memory == 1);
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 600, SIZE_MAX / 2 + 1}) {  // what a negative size becomes
    CHECK(error_of([=] { device_memory::allocate(0, bytes); }).find(std::to_string(bytes)) != std::string::npos);
    CHECK(error_of([=] { pinned_memory::allocate(bytes); }).find(std::to_string(bytes)) != std::string::npos);
  }
  device_memory::release(most);
  void* fits = device_memory::allocate(0, 7 << 20);  // the cache was emptied for it
  CHECK(fits != nullptr && device_memory::statistics(0).retries >= 1);
  device_memory::release(fits);
  CHECK(d().control("fail_allocations", 99) == TD_OK);
  device_memory::empty_cache();
  CHECK(!error_of([] { device_memory::allocate(0, 512); }).empty());
  CHECK(d().control("fail_allocations", 0) == TD_OK);
  CHECK(d().control("memory_bytes", 1 << 30) == TD_OK);
  CHECK(d().control("no such knob", 1) == TD_INVALID);
}

void pinned_memory_is_known_and_waits_for_its_copy() {
  char* host = static_cast<char*>(pinned_memory::allocate(5000));
  CHECK(pinned_memory::contains(host) && pinned_memory::contains(host + 4999));
  int local = 0;
  CHECK(!pinned_memory::contains(&local));
  td_memory kind{};
  int owner = 0;
  CHECK(d().memory_owner(host + 100, &kind, &owner) == TD_OK && kind == TD_MEMORY_HOST_PINNED);
  StreamId side = stream_from_pool(0, 0);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, side), Gate::run, &gate) == TD_OK);
  CHECK(pinned_memory::record_use(host + 10, 0, side));
  CHECK(!pinned_memory::record_use(&local, 0, side));
  pinned_memory::release(host);
  CHECK(!pinned_memory::contains(host));
  void* other = pinned_memory::allocate(5000);
  CHECK(other != host);
  gate.open = true;
  synchronize_device(0);
  void* again = pinned_memory::allocate(5000);
  CHECK(again == host);
  pinned_memory::release(other);
  pinned_memory::release(again);
  pinned_memory::empty_cache();
  CHECK(pinned_memory::statistics().reserved_bytes.current == 0);
}

void failures_in_work_are_reported_once() {
  td_stream stream = native_stream(0, 0);
  CHECK(d().stream_call(stream, [](void*) -> td_status { throw std::runtime_error("kernel went wrong"); }, nullptr) == TD_OK);
  CHECK(error_of([] { synchronize_current(0); }).find("kernel went wrong") != std::string::npos);
  CHECK(error_of([] { synchronize_current(0); }).empty());
  std::atomic<int> ran{0};
  td_callback count = [](void* argument) -> td_status {
    ++*static_cast<std::atomic<int>*>(argument);
    return TD_OK;
  };
  CHECK(d().control("fail_calls", 1) == TD_OK);
  CHECK(d().stream_call(stream, count, &ran) == TD_OK && d().stream_call(stream, count, &ran) == TD_OK);
  CHECK(error_of([] { synchronize_current(0); }).find("on request") != std::string::npos);
  CHECK(ran == 2 && error_of([] { synchronize_current(0); }).empty());
}

// A failure of work that nobody waited for is told by who waits for it, be it to give memory back: once.
void a_failure_is_told_by_who_gives_memory_back() {
  const td_callback fail = [](void*) -> td_status { throw std::runtime_error("kernel went wrong"); };
  const auto told = [](const std::string& text) { return text.find("kernel went wrong") != std::string::npos; };
  td_stream stream = native_stream(0, 0);
  device_memory::release(device_memory::allocate(0, 1000));
  CHECK(d().stream_call(stream, fail, nullptr) == TD_OK);
  CHECK(told(error_of([] { device_memory::empty_cache(); })));
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
  CHECK(error_of([] { synchronize_device(0); }).empty() && error_of([] { device_memory::empty_cache(); }).empty());
  device_memory::release(device_memory::allocate(0, 1000));
  CHECK(d().stream_call(stream, fail, nullptr) == TD_OK);
  CHECK(d().control("fail_allocations", 1) == TD_OK);  // the cache is emptied, and asks again
  CHECK(told(error_of([] { device_memory::allocate(0, 64 << 20); })));
  void* address = device_memory::allocate(0, 64 << 20);
  void* host = pinned_memory::allocate(1000);
  static td_driver without_events = *sim::sim_driver();
  without_events.event_create = [](int, int, td_event*) { return TD_FAILED; };
  for (const bool pinned : {false, true}) {  // to free tells nothing: the next that asks for memory does
    CHECK(d().stream_call(stream, fail, nullptr) == TD_OK);
    device_memory::record_use(address, 0, stream_from_pool(0, 0));
    CHECK(pinned_memory::record_use(host, 0, kDefaultStream));
    replace_driver(&without_events);
    pinned ? pinned_memory::release(host) : device_memory::release(address);
    replace_driver(nullptr);
    CHECK(error_of([] { synchronize_device(0); }).empty());
    CHECK(told(error_of([=] { pinned ? pinned_memory::allocate(1000) : device_memory::allocate(0, 1000); })));
  }
  device_memory::empty_cache();
  pinned_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
  CHECK(pinned_memory::statistics().reserved_bytes.current == 0);
}

void a_trace_has_the_work_of_its_time() {
  int host = 7;
  void* address = device_memory::allocate(0, 4096);
  const auto copied = [&](uint64_t tag, StreamId id) {
    CHECK(d().trace_tag(tag) == TD_OK);
    CHECK(d().copy(address, 0, &host, TD_HOST, sizeof host, native_stream(0, id)) == TD_OK);
  };
  const td_record_sink keep = [](void* kept, const td_record* record) {
    static_cast<std::vector<td_record>*>(kept)->push_back(*record);
  };
  copied(1, 0);
  synchronize_device(0);
  CHECK(d().trace_start() == TD_OK);
  const StreamId side = stream_from_pool(0, 0);
  std::thread other([&] { copied(2, side); });
  other.join();
  CHECK(d().stream_call(native_stream(0, side), [](void*) { return TD_OK; }, nullptr) == TD_OK);  // the tag is a thread's
  synchronize_device(0);
  std::vector<td_record> seen;
  CHECK(d().trace_stop(keep, &seen) == TD_OK);
  CHECK(seen.size() == 2 && seen[0].kind == TD_WORK_COPY && seen[1].kind == TD_WORK_KERNEL);
  CHECK(seen[0].tag == 2 && seen[0].bytes == sizeof host && seen[0].stream == seen[1].stream);
  CHECK(seen[1].tag == 1 && seen[1].name == nullptr && seen[0].thread != seen[1].thread);
  for (const td_record& one : seen) CHECK(one.called <= one.returned && one.returned <= one.ended && one.began <= one.ended);
  copied(0, 0);
  synchronize_device(0);
  seen.clear();
  CHECK(d().trace_stop(keep, &seen) == TD_OK && seen.empty());
  device_memory::release(address);
}

void a_lost_device_says_so_and_frees_its_memory() {
  void* address = device_memory::allocate(1, 4096);
  td_stream stream = native_stream(1, 0);
  td_event event = nullptr;
  CHECK(d().event_create(1, 0, &event) == TD_OK);
  CHECK(d().control("lose_device", 1) == TD_OK);
  CHECK(error_of([&] { check(d().memory_set(address, 0, 16, stream), "set"); }).find("lost") != std::string::npos);
  CHECK(error_of([] { synchronize_device(1); }).find("lost") != std::string::npos);
  CHECK(!error_of([] { device_memory::allocate(1, 64 << 20); }).empty());
  CHECK(d().event_record(event, stream) == TD_DEVICE_LOST && d().event_query(event) == TD_OK);
  device_memory::record_use(address, 1, 3);
  device_memory::release(address);
  device_memory::empty_cache(1);
  CHECK(device_memory::statistics(1).reserved_bytes.current == 0);
  d().event_destroy(event);
  CHECK(error_of([] { set_device(1); }).empty() && current_device() == 1);  // only work on it says that it is gone
  CHECK(error_of([] { set_device(0); }).empty());
  CHECK(d().control("restore_device", 1) == TD_OK);
  synchronize_device(1);
}

void memory_of_a_lost_device_waits_for_its_work() {
  td_stream stream = native_stream(1, 0);
  void* address = device_memory::allocate(1, 4096);
  CHECK(d().control("copy_delay_us", 100000) == TD_OK);
  std::vector<char> host(4096);
  CHECK(d().copy(address, 1, host.data(), TD_HOST, host.size(), stream) == TD_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the copy runs, and writes after its delay
  CHECK(d().control("lose_device", 1) == TD_OK);
  device_memory::release(address);
  device_memory::empty_cache(1);
  CHECK(d().stream_query(stream) == TD_DEVICE_LOST);
  CHECK(d().control("restore_device", 1) == TD_OK && d().control("copy_delay_us", 0) == TD_OK);
  CHECK(d().stream_query(stream) == TD_OK);  // nothing was running any more
}

void a_lost_device_does_not_free_what_another_still_uses() {
  StreamId side = stream_from_pool(0, 0);
  void* address = device_memory::allocate(0, 2048);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, side), Gate::run, &gate) == TD_OK);
  device_memory::record_use(address, 0, side);
  device_memory::record_use(address, 1, kDefaultStream);
  CHECK(d().control("lose_device", 1) == TD_OK);
  device_memory::release(address);
  void* other = device_memory::allocate(0, 2048);
  CHECK(other != address);
  gate.open = true;
  CHECK(d().control("restore_device", 1) == TD_OK);
  synchronize_device(0);
  void* again = device_memory::allocate(0, 2048);
  CHECK(again == address);
  device_memory::release(other);
  device_memory::release(again);
}

void eight_threads_share_the_allocators() {
  constexpr int kThreads = 8;
  constexpr int kRounds = kSanitized ? 300 : 3000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t, &wrong] {
      std::mt19937 random(static_cast<unsigned>(t));
      const int device = t % 2;
      const StreamId own = stream_from_pool(device, 0);
      exchange_stream(device, own);
      std::vector<std::pair<void*, size_t>> held;
      for (int i = 0; i < kRounds; ++i) {
        if (held.size() < 16 && random() % 3 != 0) {
          size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 << 20 : 20000);
          void* address = device_memory::allocate(device, bytes);
          // Each block is filled with its owner's mark; whoever finds another's mark saw a double allocation.
          if (d().memory_set(address, t + 1, bytes, native_stream(device, own)) != TD_OK) ++wrong;
          held.emplace_back(address, bytes);
        } else if (!held.empty()) {
          size_t pick = random() % held.size();
          auto [address, bytes] = held[pick];
          held.erase(held.begin() + static_cast<long>(pick));
          if (random() % 4 == 0) {
            char mark = 0;
            auto* last = static_cast<char*>(address) + bytes - 1;
            d().copy(&mark, TD_HOST, last, device, 1, native_stream(device, own));
            d().stream_synchronize(native_stream(device, own));
            if (mark != t + 1) ++wrong;
          }
          if (random() % 4 == 0) device_memory::record_use(address, device, kDefaultStream);
          device_memory::release(address);
        }
        if (i % 50 == 0) {
          void* host = pinned_memory::allocate(1 + random() % 9000);
          pinned_memory::record_use(host, device, own);
          pinned_memory::release(host);
        }
        if (i % 500 == 499) device_memory::empty_cache(device);
      }
      for (auto& [address, bytes] : held) device_memory::release(address);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  device_memory::empty_cache();
  for (int device : {0, 1}) {
    MemoryStatistics now = device_memory::statistics(device);
    CHECK(now.allocated_bytes.current == 0 && now.reserved_bytes.current == 0 && now.active_bytes.current == 0);
  }
}

// A driver in Python waits for the GIL in its functions, and whoever holds the GIL may be freeing memory.
void memory_is_freed_while_the_driver_is_busy() {
  static std::atomic<int> asked{0};
  static std::atomic<bool> freed{false};
  static std::atomic<bool> in_time{true};
  static const auto wait = [] {
    ++asked;
    for (int i = 0; i < 2000 && !freed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!freed) in_time = false;
  };
  static td_driver busy = *sim::sim_driver();
  busy.memory_alloc = [](int device, size_t bytes, void** address) {
    wait();
    return sim::sim_driver()->memory_alloc(device, bytes, address);
  };
  busy.memory_free = [](int device, void* address) {
    wait();
    return sim::sim_driver()->memory_free(device, address);
  };
  void* held = device_memory::allocate(0, 1000);
  void* other = device_memory::allocate(0, 1000);
  replace_driver(&busy);
  void* large = nullptr;
  std::thread allocating([&] { large = device_memory::allocate(0, 64 << 20); });
  while (asked == 0) std::this_thread::yield();
  device_memory::release(held);
  freed = true;
  allocating.join();
  CHECK(in_time);
  device_memory::release(large);
  freed = false;
  std::thread emptying([] { device_memory::empty_cache(0); });
  while (asked == 1) std::this_thread::yield();
  device_memory::release(other);
  freed = true;
  emptying.join();
  CHECK(in_time);
  replace_driver(nullptr);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

// Two threads run out of a segment at once, and there is room for one: who comes second waits, and takes the rest of it.
void one_segment_is_enough_for_two_threads() {
  static std::atomic<int> asked{0};
  static td_driver slow = *sim::sim_driver();
  slow.memory_alloc = [](int device, size_t bytes, void** address) {
    ++asked;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return sim::sim_driver()->memory_alloc(device, bytes, address);
  };
  device_memory::empty_cache();
  size_t available = 0;
  size_t total = 0;
  check(driver().memory_info(0, &available, &total), "asking for memory");
  replace_driver(&slow);
  device_memory::set_fraction(0, static_cast<double>(22 << 20) / static_cast<double>(total));
  void* first = nullptr;
  std::thread allocating([&] { first = device_memory::allocate(0, 4 << 20); });
  while (asked == 0) std::this_thread::yield();
  void* second = device_memory::allocate(0, 4 << 20);
  allocating.join();
  CHECK(first != nullptr && second != nullptr && first != second);
  CHECK(device_memory::statistics(0).segments.current == 1);
  device_memory::release(first);
  device_memory::release(second);
  device_memory::set_fraction(0, 1);
  replace_driver(nullptr);
  device_memory::empty_cache();
}

// A function that a driver calls while it gives memory back, as Python's collector does, may want some: it is refused.
void who_is_in_the_driver_waits_for_nobody() {
  static std::atomic<bool> refused{false};
  static td_driver nested = *sim::sim_driver();
  nested.memory_free = [](int device, void* address) {
    try {
      device_memory::release(device_memory::allocate(device, size_t{1} << 40));
    } catch (const OutOfMemory&) {
      refused = true;
    }
    return sim::sim_driver()->memory_free(device, address);
  };
  device_memory::empty_cache();
  device_memory::release(device_memory::allocate(0, 1000));
  replace_driver(&nested);
  device_memory::empty_cache(0);
  replace_driver(nullptr);
  CHECK(refused);
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

// A function on a stream cannot wait for the device, whose work may still read what was freed: nothing goes back.
void who_may_not_wait_gives_nothing_back() {
  static td_driver on_stream = *sim::sim_driver();
  on_stream.device_synchronize = [](int) { return TD_INVALID; };
  device_memory::release(device_memory::allocate(0, 1000));
  replace_driver(&on_stream);
  const int64_t reserved = device_memory::statistics(0).reserved_bytes.current;
  device_memory::empty_cache(0);
  CHECK(reserved > 0 && device_memory::statistics(0).reserved_bytes.current == reserved);
  bool refused = false;
  try {
    device_memory::allocate(0, size_t{1} << 40);
  } catch (const OutOfMemory&) {
    refused = true;
  }
  CHECK(refused);
  replace_driver(nullptr);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

// With a driver in Python another thread may be about to give pinned memory back while this one runs out of it.
void who_runs_out_of_pinned_memory_waits_for_who_gives_it_back() {
  static std::atomic<int> left{1};
  static std::atomic<bool> recording{false};
  static td_driver tight = *sim::sim_driver();
  tight.host_alloc = [](size_t bytes, void** address) {
    if (left == 0) return TD_OUT_OF_MEMORY;
    --left;
    return sim::sim_driver()->host_alloc(bytes, address);
  };
  tight.host_free = [](void* address) {
    ++left;
    return sim::sim_driver()->host_free(address);
  };
  tight.event_record = [](td_event event, td_stream stream) {
    recording = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return sim::sim_driver()->event_record(event, stream);
  };
  pinned_memory::empty_cache();
  replace_driver(&tight);
  void* held = pinned_memory::allocate(1000);
  CHECK(pinned_memory::record_use(held, 0, kDefaultStream));
  std::thread releasing([=] { pinned_memory::release(held); });
  while (!recording) std::this_thread::yield();
  void* next = pinned_memory::allocate(5000);
  releasing.join();
  CHECK(next != nullptr);

  // A function on a stream waits for nothing, and gives nothing back that work may still use.
  Gate gate;
  CHECK(d().stream_call(native_stream(0, kDefaultStream), Gate::run, &gate) == TD_OK);
  CHECK(pinned_memory::record_use(next, 0, kDefaultStream));
  pinned_memory::release(next);
  tight.device_synchronize = [](int) { return TD_INVALID; };
  tight.event_synchronize = [](td_event) { return TD_INVALID; };
  CHECK(!error_of([] { pinned_memory::allocate(1000); }).empty() && left == 0);
  gate.open = true;
  replace_driver(nullptr);
  synchronize_device(0);
  pinned_memory::empty_cache();
  CHECK(pinned_memory::statistics().reserved_bytes.current == 0);
}

// The pool of the segment that holds `address`; the segments are as large as the statistics say.
device_memory::PoolId pool_of(int device, const void* address) {
  const auto segments = device_memory::snapshot(device);
  for (const auto& segment : segments) {
    const auto* begin = static_cast<const char*>(segment.address);
    const auto* at = static_cast<const char*>(address);
    if (begin <= at && at < begin + segment.size) return segment.pool;
  }
  CHECK(!"an address of no segment");
  return 0;
}

void a_pool_serves_only_who_entered_it() {
  device_memory::empty_cache();
  const device_memory::PoolId pool = device_memory::make_pool(0);
  CHECK(pool != 0 && device_memory::make_pool(1) != pool);
  void* outside = device_memory::allocate(0, 1000);
  device_memory::release(device_memory::allocate(0, 1000));  // a free block that would fit
  device_memory::enter_pool(0, pool, std::nullopt);
  void* first = device_memory::allocate(0, 1000);
  void* second = device_memory::allocate(0, 3000);
  void* far = device_memory::allocate(1, 1000);
  void* others = nullptr;
  std::thread([&] { others = device_memory::allocate(0, 1000); }).join();
  device_memory::leave_pool(0, pool);
  CHECK(pool_of(0, first) == pool && pool_of(0, second) == pool);
  CHECK(pool_of(0, outside) == 0 && pool_of(0, others) == 0 && pool_of(1, far) == 0);
  const MemoryStatistics now = device_memory::statistics(0);
  CHECK(now.segments.current == 2 && now.allocations.current == 4);
  device_memory::release(first);
  device_memory::release(second);
  void* after = device_memory::allocate(0, 1000);
  CHECK(pool_of(0, after) == 0);
  for (void* each : {outside, others, after, far}) device_memory::release(each);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).segments.current == 1);  // the pool's, though nothing of it is in use
  device_memory::enter_pool(0, pool, std::nullopt);
  CHECK(device_memory::allocate(0, 4096) == first);  // its blocks were joined
  device_memory::leave_pool(0, pool);
  device_memory::release(first);
  device_memory::drop_pool(0, pool);
  CHECK(pool_of(0, first) == 0 && device_memory::allocate(0, 1000) == first);  // the device's own from now on
  device_memory::release(first);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

void a_pool_of_a_stream_serves_every_thread_on_it() {
  const StreamId side = stream_from_pool(0, 0);
  const device_memory::PoolId by_stream = device_memory::make_pool(0);
  const device_memory::PoolId by_thread = device_memory::make_pool(0);
  device_memory::enter_pool(0, by_stream, side);
  const auto found = [](StreamId stream) {
    const StreamId before = exchange_stream(0, stream);
    void* address = device_memory::allocate(0, 1000);
    exchange_stream(0, before);
    const device_memory::PoolId pool = pool_of(0, address);
    device_memory::release(address);
    return pool;
  };
  CHECK(found(side) == by_stream && found(kDefaultStream) == 0);
  std::thread([&] { CHECK(found(side) == by_stream && found(kDefaultStream) == 0); }).join();
  device_memory::enter_pool(0, by_thread, std::nullopt);
  CHECK(found(side) == by_thread && found(kDefaultStream) == by_thread);  // the last one counts
  device_memory::enter_pool(0, by_thread, std::nullopt);
  device_memory::leave_pool(0, by_thread);
  CHECK(found(side) == by_thread);  // entered twice, left once
  std::thread([&] {
    CHECK(found(side) == by_stream);
    device_memory::leave_pool(0, by_stream);  // whoever ends the work on a stream may be another thread
  }).join();
  device_memory::leave_pool(0, by_thread);
  CHECK(found(side) == 0);
  std::thread([&] { device_memory::enter_pool(0, by_thread, std::nullopt); }).join();
  std::thread([&] { CHECK(found(kDefaultStream) == 0); }).join();  // a thread that is gone serves none that comes
  device_memory::drop_pool(0, by_stream);
  device_memory::drop_pool(0, by_thread);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

void a_wrong_pool_is_named() {
  const device_memory::PoolId pool = device_memory::make_pool(0);
  const auto told = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  CHECK(told(error_of([=] { device_memory::enter_pool(1, pool, std::nullopt); }), "never made, or was dropped"));
  CHECK(told(error_of([] { device_memory::enter_pool(0, 0, std::nullopt); }), "no pool 0 of device 0"));
  CHECK(told(error_of([=] { device_memory::leave_pool(0, pool); }), "was not entered"));
  device_memory::enter_pool(0, pool, std::nullopt);
  std::thread([=] { CHECK(told(error_of([=] { device_memory::leave_pool(0, pool); }), "by this thread")); }).join();
  device_memory::drop_pool(0, pool);
  CHECK(told(error_of([=] { device_memory::leave_pool(0, pool); }), "was dropped"));
  CHECK(told(error_of([=] { device_memory::drop_pool(0, pool); }), "was dropped"));
  CHECK(told(error_of([] { device_memory::make_pool(2); }), "2 devices"));
  void* address = device_memory::allocate(0, 1000);
  CHECK(pool_of(0, address) == 0);  // whoever was in it is out
  device_memory::release(address);
}

void a_pool_may_end_before_its_blocks() {
  device_memory::empty_cache();
  const device_memory::PoolId pool = device_memory::make_pool(0);
  device_memory::enter_pool(0, pool, std::nullopt);
  void* used = device_memory::allocate(0, 1000);
  void* pending = device_memory::allocate(0, 1000);
  void* free_one = device_memory::allocate(0, 24 << 20);
  const StreamId side = stream_from_pool(0, 0);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, side), Gate::run, &gate) == TD_OK);
  device_memory::record_use(pending, 0, side);
  device_memory::release(pending);
  device_memory::release(free_one);
  device_memory::drop_pool(0, pool);
  CHECK(device_memory::allocate(0, 24 << 20) == free_one);
  device_memory::release(free_one);
  gate.open = true;
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 2 << 20);  // what `used` is in
  device_memory::release(used);
  CHECK(device_memory::allocate(0, 2048) == used);  // joined with what was pending
  device_memory::release(used);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

// With a driver in Python a pool can be dropped while memory for it is asked for: it is the device's own.
void a_pool_may_end_while_it_grows() {
  static std::atomic<bool> asked{false};
  static std::atomic<bool> dropped{false};
  static td_driver slow = *sim::sim_driver();
  slow.memory_alloc = [](int device, size_t bytes, void** address) {
    asked = true;
    while (!dropped) std::this_thread::yield();
    return sim::sim_driver()->memory_alloc(device, bytes, address);
  };
  const device_memory::PoolId pool = device_memory::make_pool(0);
  replace_driver(&slow);
  void* address = nullptr;
  std::thread growing([&] {
    device_memory::enter_pool(0, pool, std::nullopt);
    address = device_memory::allocate(0, 1000);
  });
  while (!asked) std::this_thread::yield();
  device_memory::drop_pool(0, pool);
  dropped = true;
  growing.join();
  replace_driver(nullptr);
  CHECK(pool_of(0, address) == 0);
  void* beside = device_memory::allocate(0, 1000);
  CHECK(device_memory::statistics(0).segments.current == 1);  // the rest of the segment, too
  device_memory::release(address);
  device_memory::release(beside);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

void a_pool_keeps_its_memory_when_others_run_out() {
  device_memory::empty_cache();
  CHECK(d().control("memory_bytes", 8 << 20) == TD_OK);
  void* own = device_memory::allocate(0, 6 << 20);
  device_memory::release(own);
  const device_memory::PoolId pool = device_memory::make_pool(0);
  device_memory::enter_pool(0, pool, std::nullopt);
  void* inside = device_memory::allocate(0, 6 << 20);  // the device's own goes back for it
  CHECK(pool_of(0, inside) == pool);
  CHECK(!error_of([] { device_memory::allocate(0, 6 << 20); }).empty());
  device_memory::leave_pool(0, pool);
  device_memory::release(inside);
  CHECK(!error_of([] { device_memory::allocate(0, 6 << 20); }).empty());
  device_memory::drop_pool(0, pool);
  void* after = device_memory::allocate(0, 7 << 20);
  CHECK(after != nullptr);
  device_memory::release(after);
  device_memory::empty_cache();
  CHECK(d().control("memory_bytes", 1 << 30) == TD_OK);
}

void eight_threads_have_pools() {
  constexpr int kThreads = 8;
  constexpr int kRounds = kSanitized ? 100 : 1000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  const device_memory::PoolId shared = device_memory::make_pool(0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([=, &wrong] {
      std::mt19937 random(static_cast<unsigned>(t));
      const StreamId own = stream_from_pool(0, 0);
      exchange_stream(0, own);
      std::vector<void*> held;
      for (int round = 0; round < kRounds; ++round) {
        const bool alone = random() % 4 != 0;
        const device_memory::PoolId pool = alone ? device_memory::make_pool(0) : shared;
        device_memory::enter_pool(0, pool, alone && round % 2 == 0 ? std::optional<StreamId>(own) : std::nullopt);
        for (int i = 0; i < 3; ++i) {
          const size_t bytes = 1 + random() % 20000;
          void* address = device_memory::allocate(0, bytes);
          if (d().memory_set(address, t + 1, bytes, native_stream(0, own)) != TD_OK) ++wrong;
          held.push_back(address);
        }
        device_memory::leave_pool(0, pool);
        while (held.size() > random() % 12) {
          const size_t pick = random() % held.size();
          char mark = 0;
          d().copy(&mark, TD_HOST, held[pick], 0, 1, native_stream(0, own));
          d().stream_synchronize(native_stream(0, own));
          if (mark != t + 1) ++wrong;
          if (random() % 8 == 0) device_memory::record_use(held[pick], 0, kDefaultStream);
          device_memory::release(held[pick]);
          held.erase(held.begin() + static_cast<long>(pick));
        }
        if (alone) device_memory::drop_pool(0, pool);
        if (round % 50 == 0) device_memory::empty_cache(0);
        if (round % 50 == 25 && device_memory::snapshot(0).empty() && !held.empty()) ++wrong;
      }
      for (void* address : held) device_memory::release(address);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  device_memory::drop_pool(0, shared);
  device_memory::empty_cache();
  const MemoryStatistics now = device_memory::statistics(0);
  CHECK(now.allocated_bytes.current == 0 && now.active_bytes.current == 0 && now.reserved_bytes.current == 0);
}

void a_snapshot_has_every_block() {
  device_memory::empty_cache();
  CHECK(device_memory::snapshot(0).empty());
  const StreamId side = stream_from_pool(0, 0);
  void* used = device_memory::allocate(0, 1000);
  void* pending = device_memory::allocate(0, 600);
  void* large = device_memory::allocate(0, 24 << 20);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, side), Gate::run, &gate) == TD_OK);
  device_memory::record_use(pending, 0, side);
  device_memory::release(pending);
  const auto segments = device_memory::snapshot(0);
  CHECK(segments.size() == 2);
  const bool small_first = segments[0].small;
  const auto& small = segments[small_first ? 0 : 1];
  CHECK(small.small && small.size == 2 << 20 && small.stream == kDefaultStream && small.blocks.size() == 3);
  using device_memory::BlockState;
  const auto is = [&](size_t index, size_t size, size_t requested, BlockState state) {
    const auto& block = small.blocks[index];
    return block.size == size && block.requested == requested && block.state == state;
  };
  CHECK(is(0, 1024, 1000, BlockState::kAllocated) && small.blocks[0].address == used && small.address == used);
  CHECK(is(1, 1024, 600, BlockState::kPendingFree) && small.blocks[1].address == pending);
  CHECK(is(2, (2 << 20) - 2048, 0, BlockState::kInactive));
  CHECK(segments[small_first ? 1 : 0].address == large && segments[small_first ? 1 : 0].blocks.size() == 1);
  gate.open = true;
  device_memory::release(used);
  device_memory::release(large);
  device_memory::empty_cache();
  CHECK(device_memory::snapshot(0).empty());
}

void the_history_has_each_step() {
  device_memory::empty_cache();
  device_memory::record_history(0, 100);
  void* address = device_memory::allocate(0, 1000);
  device_memory::release(address);
  device_memory::empty_cache(0);
  error_of([] { device_memory::allocate(0, size_t{1} << 40); });
  device_memory::record_history(0, 0);
  device_memory::release(device_memory::allocate(0, 1000));
  const auto steps = device_memory::history(0);
  const std::vector<std::string> expected{"segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom"};
  CHECK(steps.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) CHECK(steps[i].action == expected[i] && steps[i].time >= steps[0].time);
  CHECK(steps[1].address == address && steps[1].size == 1024 && steps[0].size == 2 << 20);
  CHECK(steps[5].size == size_t{1} << 40 && steps[5].available > 0 && device_memory::history(1).empty());
  device_memory::record_history(0, 2);  // the last two stay
  CHECK(device_memory::history(0).size() == 2);
  device_memory::record_history(0, 0);
  device_memory::forget_history(0);
  CHECK(device_memory::history(0).empty());
}

void without_a_cache_memory_goes_back_at_once() {
  device_memory::empty_cache();
  device_memory::set_caching(false);
  CHECK(!device_memory::caching());
  const int64_t frees = device_memory::statistics(0).driver_frees;
  void* first = device_memory::allocate(0, 1000);
  void* second = device_memory::allocate(0, 1000);
  CHECK(device_memory::statistics(0).reserved_bytes.current == 2048 && device_memory::statistics(0).segments.current == 2);
  const StreamId side = stream_from_pool(0, 0);
  device_memory::record_use(second, 0, side);
  device_memory::release(first);
  CHECK(device_memory::statistics(0).reserved_bytes.current == 1024);
  device_memory::release(second);  // waits for the other stream
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0 && device_memory::statistics(0).driver_frees == frees + 2);
  // A failure that it waited for is told by the next that asks for memory, as ever.
  first = device_memory::allocate(0, 1000);
  const td_callback fail = [](void*) -> td_status { throw std::runtime_error("kernel went wrong"); };
  CHECK(d().stream_call(native_stream(0, 0), fail, nullptr) == TD_OK);
  device_memory::release(first);
  CHECK(error_of([] { device_memory::allocate(0, 1000); }).find("kernel went wrong") != std::string::npos);
  device_memory::set_caching(true);
  device_memory::release(device_memory::allocate(0, 1000));
  CHECK(device_memory::statistics(0).reserved_bytes.current == 2 << 20);
  device_memory::empty_cache();
}

void peaks_of_pinned_memory_start_anew() {
  pinned_memory::empty_cache();
  pinned_memory::release(pinned_memory::allocate(1 << 20));
  pinned_memory::empty_cache();
  CHECK(pinned_memory::statistics().allocated_bytes.peak >= 1 << 20);
  pinned_memory::reset_peak();
  CHECK(pinned_memory::statistics().allocated_bytes.peak == 0 && pinned_memory::statistics().reserved_bytes.peak == 0);
  CHECK(pinned_memory::statistics().allocated_bytes.added >= 1 << 20);
  pinned_memory::reset_accumulated();
  CHECK(pinned_memory::statistics().allocated_bytes.added == 0 && pinned_memory::statistics().driver_allocations == 0);
}

// Makes a stream current for a while.
struct On {
  explicit On(StreamId stream) : before(exchange_stream(0, stream)) {}
  ~On() { exchange_stream(0, before); }
  StreamId before;
};

td_status count_up(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
  return TD_OK;
}

void a_graph_runs_at_each_replay_and_not_before() {
  const StreamId own = stream_from_pool(0, 0);
  td_stream stream = native_stream(0, own);
  void* from = device_memory::allocate(0, 64);
  void* to = device_memory::allocate(0, 64);
  char* host = static_cast<char*>(pinned_memory::allocate(64));
  std::atomic<int> runs{0};
  Graph graph;
  CHECK(has_graphs() && !error_of([&] { graph.replay(); }).empty() && !error_of([&] { graph.pool(); }).empty());
  {
    const On on(own);
    CHECK(!is_capturing(0));
    graph.begin();
    CHECK(is_capturing(0) && capture_under_way);
    std::thread([] { CHECK(!is_capturing(0)); }).join();  // its current stream is another
    CHECK(d().copy(to, 0, from, 0, 64, stream) == TD_OK && d().copy(host, TD_HOST, to, 0, 64, stream) == TD_OK);
    CHECK(d().memory_set(from, 0, 64, stream) == TD_OK && d().stream_call(stream, count_up, &runs) == TD_OK);
    graph.end();
    CHECK(!is_capturing(0) && !capture_under_way);
  }
  synchronize_device(0);
  CHECK(runs == 0);
  for (int round = 1; round <= 3; ++round) {
    const On on(round == 3 ? stream_from_pool(0, 0) : own);  // any stream of the device
    CHECK(d().memory_set(from, round, 64, native_current_stream(0)) == TD_OK);
    graph.replay();
    synchronize_current(0);
    CHECK(host[0] == round && host[63] == round && runs == round);
  }
  std::vector<td_record> seen;
  const td_record_sink keep = [](void* kept, const td_record* record) {
    static_cast<std::vector<td_record>*>(kept)->push_back(*record);
  };
  CHECK(d().trace_start() == TD_OK);
  graph.replay();
  synchronize_device(0);
  CHECK(d().trace_stop(keep, &seen) == TD_OK && seen.size() == 4 && seen[0].kind == TD_WORK_COPY && seen[0].bytes == 64);
  CHECK(!error_of([&] { const On on(own); graph.begin(); }).empty());  // it has one
  graph.reset();
  CHECK(!error_of([&] { graph.replay(); }).empty());
  device_memory::release(from);
  device_memory::release(to);
  pinned_memory::release(host);
}

void streams_that_events_join_are_in_the_graph() {
  const On on(stream_from_pool(0, 0));
  const StreamId side = stream_from_pool(0, 0);
  td_stream first = native_current_stream(0);
  td_stream second = native_stream(0, side);
  std::atomic<int> runs{0};
  td_event event = nullptr;
  CHECK(d().event_create(0, 0, &event) == TD_OK);
  const auto follow = [&](td_stream later, td_stream earlier) {
    return d().event_record(event, earlier) == TD_OK && d().stream_wait(later, event) == TD_OK;
  };
  for (const bool joined : {true, false}) {
    Graph graph;
    graph.begin();
    CHECK(follow(second, first));
    int captures = 0;
    CHECK(d().graph_captures(second, &captures) == TD_OK && captures == 1);
    CHECK(d().stream_call(second, count_up, &runs) == TD_OK && d().stream_call(first, count_up, &runs) == TD_OK);
    if (joined) CHECK(follow(first, second));
    const std::string text = error_of([&] { graph.end(); });
    CHECK(joined ? text.empty() : text.find("does not wait for") != std::string::npos);
    CHECK(d().stream_query(second) == TD_OK);  // it is free again
    CHECK(d().event_query(event) == TD_INVALID && d().stream_wait(second, event) == TD_INVALID);
    if (!joined) continue;
    graph.replay();
    synchronize_device(0);
    CHECK(runs == 2);
  }
  CHECK(d().event_record(event, second) == TD_OK && d().event_synchronize(event) == TD_OK);  // as any event again
  Graph graph;
  graph.begin();
  CHECK(d().stream_wait(first, event) == TD_INVALID);  // what is not captured is not waited for
  CHECK(!error_of([&] { graph.end(); }).empty());
  d().event_destroy(event);
}

// What waits for the device, or asks about it, ends a capture, and the end says what it was.
void who_waits_ends_a_capture() {
  const On on(stream_from_pool(0, 0));
  td_stream stream = native_current_stream(0);
  void* address = device_memory::allocate(0, 64);
  td_event event = nullptr;
  CHECK(d().event_create(0, 1, &event) == TD_OK);
  static char host[64];
  std::atomic<int> runs{0};
  Graph other;
  other.begin();
  other.end();
  const std::vector<std::pair<const char*, std::function<td_status()>>> calls{
      {"idle", [&] { return d().stream_query(stream); }},
      {"waiting for it", [&] { return d().stream_synchronize(stream); }},
      {"device", [] { return d().device_synchronize(0); }},
      {"asking for an event", [&] { return d().event_query(event); }},
      {"waiting for an event", [&] { return d().event_synchronize(event); }},
      {"not pinned", [&] { return d().copy(host, TD_HOST, address, 0, 64, stream); }},
      {"not pinned", [&] { return d().copy(address, 0, host, TD_HOST, 64, stream); }},
      {"destroying", [&] { return d().stream_destroy(stream); }},
      {"another graph", [&] { return d().graph_begin(stream); }},
      {"launching", [&] { return error_of([&] { other.replay(); }).empty() ? TD_OK : TD_INVALID; }},
  };
  for (const auto& [why, call] : calls) {
    Graph graph;
    graph.begin();
    CHECK(d().event_record(event, stream) == TD_OK);
    CHECK(call() == TD_INVALID && std::string(d().error_text()).find(why) != std::string::npos);
    CHECK(!is_capturing(0));
    CHECK(d().stream_call(stream, count_up, &runs) == TD_INVALID);  // neither run nor kept
    CHECK(error_of([&] { graph.end(); }).find(why) != std::string::npos);
    CHECK(!error_of([&] { graph.replay(); }).empty());
    synchronize_current(0);
  }
  CHECK(runs == 0);
  Graph graph;
  graph.begin();
  end_capture_broken("one draws numbers");
  end_capture_broken("another");
  CHECK(is_capturing(0));
  CHECK(error_of([&] { graph.end(); }).find("one draws numbers") != std::string::npos);
  graph.begin();  // what failed left nothing behind
  graph.end();
  d().event_destroy(event);
  device_memory::release(address);
}

void captures_are_one_at_a_time_and_on_a_stream_of_their_own() {
  CHECK(error_of([] { Graph().begin(); }).find("default stream") != std::string::npos);
  const On on(stream_from_pool(0, 0));
  Graph graph;
  CHECK(!error_of([&] { graph.end(); }).empty() && !error_of([] { keep_for_graph(nullptr); }).empty());
  graph.begin();
  CHECK(error_of([] { Graph().begin(); }).find("one at a time") != std::string::npos);
  graph.reset();  // ends it
  CHECK(!capture_under_way && error_of([] { synchronize_current(0); }).empty());
  {
    Graph gone;
    gone.begin();
  }
  CHECK(!capture_under_way && error_of([] { synchronize_current(0); }).empty());
  static td_driver without = *sim::sim_driver();
  without.graph_launch = nullptr;
  replace_driver(&without);
  CHECK(!has_graphs() && error_of([] { Graph().begin(); }).find("driver table") != std::string::npos);
  replace_driver(nullptr);
}

void memory_of_a_graph_is_nobody_else_s() {
  device_memory::empty_cache();
  const StreamId own = stream_from_pool(0, 0);
  const StreamId side = stream_from_pool(0, 0);
  td_event event = nullptr;
  CHECK(d().event_create(0, 0, &event) == TD_OK);
  const auto taken = [](StreamId stream, bool released = true) {
    const On on(stream);
    void* address = device_memory::allocate(0, 1000);
    if (released) device_memory::release(address);
    return address;
  };
  Graph graph;
  void* inside = nullptr;
  void* beside = nullptr;
  {
    const On on(own);
    graph.begin();
    inside = taken(own);
    CHECK(taken(own) == inside);  // in its own order it takes it again
    CHECK(pool_of(0, inside) != 0 && pool_of(0, taken(kDefaultStream)) == 0 && pool_of(0, taken(side)) == 0);
    std::thread([=] { CHECK(taken(own) == inside); }).join();  // as the threads of autograd's engine do
    CHECK(d().event_record(event, native_stream(0, own)) == TD_OK);
    CHECK(d().stream_wait(native_stream(0, side), event) == TD_OK);
    note_wait(0, side);
    beside = taken(side);
    CHECK(pool_of(0, beside) == pool_of(0, inside) && beside != inside);
    device_memory::empty_cache();  // waits for nothing, so nothing goes back
    CHECK(is_capturing(0));
    graph.end();
  }
  CHECK(taken(own) != inside && taken(side) != beside);
  device_memory::empty_cache();
  CHECK(pool_of(0, inside) != 0);
  {
    const On on(own);
    Graph second;
    second.begin(graph.pool());
    CHECK(taken(own) == inside);  // they share it
    second.end();
    second.reset();
    CHECK(pool_of(0, inside) != 0);
  }
  graph.reset();
  CHECK(taken(own) != nullptr && pool_of(0, inside) == 0);
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
  const GraphPool named = make_graph_pool();
  for (int round = 0; round < 2; ++round) {  // a name outlives the graphs of it
    const On on(own);
    Graph each;
    each.begin(named);
    CHECK(each.pool() == named && pool_of(0, taken(own)) != 0);
    each.end();
  }
  {
    const On on(own);
    Graph each;
    CHECK(error_of([&] { each.begin({0, 12345}); }).find("12345") != std::string::npos);  // of no device
    CHECK(error_of([&] { each.pool(); }).find("capture has begun") != std::string::npos && !capture_under_way);
    const device_memory::PoolId users = device_memory::make_pool(0);
    each.begin({0, users});
    void* address = taken(own);
    CHECK(pool_of(0, address) == users);
    each.end();
    each.reset();
    CHECK(pool_of(0, address) == users);  // whoever made it drops it
    each.begin({0, users});
    device_memory::drop_pool(0, users);
    each.end();
  }
  d().event_destroy(event);
}

// Replays write to what the capture freed, though nobody holds the pool any more whose block it was.
void memory_of_a_graph_stays_when_the_pool_s_maker_drops_it() {
  device_memory::empty_cache();
  const auto segments = [] { return device_memory::statistics(0).segments.current; };
  const On on(stream_from_pool(0, 0));
  const device_memory::PoolId users = device_memory::make_pool(0);
  const auto capture = [&](Graph& graph) {
    graph.begin({0, users});
    void* address = device_memory::allocate(0, size_t{16} << 20);
    device_memory::release(address);
    graph.end();
    return address;
  };
  Graph first;
  Graph second;
  void* address = capture(first);
  device_memory::drop_pool(0, users);
  device_memory::empty_cache();
  CHECK(segments() == 1 && pool_of(0, address) == users);
  CHECK(capture(second) == address);  // whoever knows the pool's name may share it as long as a graph has it
  first.reset();
  device_memory::empty_cache();
  CHECK(segments() == 1);
  second.reset();
  device_memory::empty_cache();
  CHECK(segments() == 0);
  CHECK(error_of([&] { first.begin({0, users}); }).find("was dropped") != std::string::npos && !capture_under_way);
}

// A thread's own pool would give the block to others, whom the next replay writes over.
void what_a_capture_takes_is_the_graph_s_inside_a_thread_s_pool() {
  const StreamId own = stream_from_pool(0, 0);
  const On on(own);
  const device_memory::PoolId users = device_memory::make_pool(0);
  const auto pool_of_next = [] {
    void* address = device_memory::allocate(0, 1000);
    device_memory::release(address);
    return pool_of(0, address);
  };
  Graph graph;
  graph.begin();
  device_memory::enter_pool(0, users, std::nullopt);
  const device_memory::PoolId graphs = pool_of_next();
  CHECK(graphs != users && graphs != 0);
  {
    const On beside(kDefaultStream);
    CHECK(pool_of_next() == users);  // this stream is not captured
  }
  graph.end();
  CHECK(pool_of_next() == users);
  device_memory::leave_pool(0, users);
  device_memory::drop_pool(0, users);
  graph.reset();
  device_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

// An event on a captured stream says nothing of the work before it: what is freed waits for the end of the capture.
void memory_in_use_on_a_captured_stream_waits_for_its_end() {
  device_memory::empty_cache();
  pinned_memory::empty_cache();
  const StreamId own = stream_from_pool(0, 0);
  void* address = device_memory::allocate(0, 2048);
  void* host = pinned_memory::allocate(2048);
  Gate gate;
  CHECK(d().stream_call(native_stream(0, own), Gate::run, &gate) == TD_OK);
  device_memory::record_use(address, 0, own);
  CHECK(pinned_memory::record_use(host, 0, own));
  Graph graph;
  {
    const On on(own);
    graph.begin();
    device_memory::release(address);
    pinned_memory::release(host);
    CHECK(is_capturing(0));
    const On before(kDefaultStream);
    void* other = device_memory::allocate(0, 2048);
    void* other_host = pinned_memory::allocate(2048);
    CHECK(other != address && other_host != host);
    device_memory::release(other);
    pinned_memory::release(other_host);
  }
  graph.end();
  void* others[] = {device_memory::allocate(0, 2048), device_memory::allocate(0, 2048)};
  void* other_host = pinned_memory::allocate(2048);
  CHECK(others[0] != address && others[1] != address && other_host != host);  // the gate is still shut
  gate.open = true;
  synchronize_device(0);
  void* again = device_memory::allocate(0, 2048);
  void* again_host = pinned_memory::allocate(2048);
  CHECK(again == address && again_host == host);
  for (void* each : {again, others[0], others[1]}) device_memory::release(each);
  for (void* each : {again_host, other_host}) pinned_memory::release(each);
  device_memory::empty_cache();
  pinned_memory::empty_cache();
}

void what_a_graph_points_to_lives_as_long() {
  const On on(stream_from_pool(0, 0));
  td_stream stream = native_current_stream(0);
  struct Slow {
    std::atomic<int>* ended;
    ~Slow() { *ended += 100; }
    static td_status run(void* self) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++*static_cast<Slow*>(self)->ended;
      return TD_OK;
    }
  };
  std::atomic<int> ended{0};
  Graph graph;
  graph.begin();
  auto slow = std::make_shared<Slow>(Slow{&ended});
  ended = 0;
  CHECK(d().stream_call(stream, Slow::run, slow.get()) == TD_OK);
  keep_for_graph(std::move(slow));
  graph.end();
  graph.replay();
  {
    const On other(stream_from_pool(0, 0));
    graph.replay();
  }
  graph.reset();  // waits for both
  CHECK(ended == 102);
}

void a_failure_in_a_replay_is_told_by_who_waits() {
  const On on(stream_from_pool(0, 0));
  std::atomic<int> runs{0};
  Graph graph;
  graph.begin();
  CHECK(d().stream_call(native_current_stream(0), count_up, &runs) == TD_OK);
  graph.end();
  CHECK(d().control("fail_calls", 1) == TD_OK);
  graph.replay();
  CHECK(error_of([] { synchronize_current(0); }).find("on request") != std::string::npos);
  graph.replay();
  CHECK(error_of([] { synchronize_current(0); }).empty() && runs == 2);
}

void other_threads_go_on_while_a_graph_is_captured() {
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const StreamId own = stream_from_pool(0, -1);
      exchange_stream(0, own);
      td_stream stream = native_stream(0, own);
      auto* host = static_cast<char*>(pinned_memory::allocate(64));
      while (!over) {
        void* address = device_memory::allocate(0, 4096);
        if (d().memory_set(address, t + 1, 64, stream) != TD_OK) ++wrong;
        if (d().copy(host, TD_HOST, address, 0, 64, stream) != TD_OK || d().stream_synchronize(stream) != TD_OK) ++wrong;
        if (host[0] != t + 1 || host[63] != t + 1) ++wrong;
        device_memory::record_use(address, 0, kDefaultStream);
        device_memory::release(address);
      }
      pinned_memory::release(host);
    });
  }
  const On on(stream_from_pool(0, 0));
  td_stream stream = native_current_stream(0);
  for (int round = 0; round < 50; ++round) {
    Graph graph;
    graph.begin();
    void* inside = device_memory::allocate(0, 4096);
    CHECK(d().memory_set(inside, 77, 4096, stream) == TD_OK);
    device_memory::release(inside);
    graph.end();
    for (int i = 0; i < 3; ++i) graph.replay();
    synchronize_current(0);
  }
  over = true;
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  synchronize_device(0);
  device_memory::empty_cache();
  pinned_memory::empty_cache();
  CHECK(device_memory::statistics(0).reserved_bytes.current == 0);
}

int status_of_child(void (*body)()) {
  std::fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

void the_host_cannot_touch_device_memory() {
  static char* address = static_cast<char*>(device_memory::allocate(0, 64));
  CHECK(sim::sim_view(address) != address);
  std::memset(sim::sim_view(address), 1, 64);
  int status = status_of_child([] {
    volatile char stray = *address;
    (void)stray;
  });
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  device_memory::release(address);
}

void a_forked_child_is_refused() {
  int status = status_of_child([] {
    bool refused = error_of([] { device_memory::allocate(0, 64); }).find("spawn") != std::string::npos;
    _exit(refused && is_bad_fork() && !is_initialized() ? 42 : 1);
  });
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

}  // namespace

int main() {
  only_first_use_starts_it();
  a_wait_is_for_what_was_enqueued_before_it();
  devices_are_checked_and_per_thread();
  streams_have_order_and_events_join_them();
  copies_go_round();
  memory_is_cached_split_and_joined();
  other_streams_hold_memory_back();
  running_out_tells_the_numbers();
  pinned_memory_is_known_and_waits_for_its_copy();
  failures_in_work_are_reported_once();
  a_failure_is_told_by_who_gives_memory_back();
  a_trace_has_the_work_of_its_time();
  a_lost_device_says_so_and_frees_its_memory();
  memory_of_a_lost_device_waits_for_its_work();
  a_lost_device_does_not_free_what_another_still_uses();
  eight_threads_share_the_allocators();
  memory_is_freed_while_the_driver_is_busy();
  one_segment_is_enough_for_two_threads();
  who_is_in_the_driver_waits_for_nobody();
  who_may_not_wait_gives_nothing_back();
  who_runs_out_of_pinned_memory_waits_for_who_gives_it_back();
  a_pool_serves_only_who_entered_it();
  a_pool_of_a_stream_serves_every_thread_on_it();
  a_wrong_pool_is_named();
  a_pool_may_end_before_its_blocks();
  a_pool_may_end_while_it_grows();
  a_pool_keeps_its_memory_when_others_run_out();
  eight_threads_have_pools();
  a_snapshot_has_every_block();
  the_history_has_each_step();
  without_a_cache_memory_goes_back_at_once();
  peaks_of_pinned_memory_start_anew();
  a_graph_runs_at_each_replay_and_not_before();
  streams_that_events_join_are_in_the_graph();
  who_waits_ends_a_capture();
  captures_are_one_at_a_time_and_on_a_stream_of_their_own();
  memory_of_a_graph_is_nobody_else_s();
  memory_of_a_graph_stays_when_the_pool_s_maker_drops_it();
  what_a_capture_takes_is_the_graph_s_inside_a_thread_s_pool();
  memory_in_use_on_a_captured_stream_waits_for_its_end();
  what_a_graph_points_to_lives_as_long();
  a_failure_in_a_replay_is_told_by_who_waits();
  other_threads_go_on_while_a_graph_is_captured();
  if (!kSanitized) {
    the_host_cannot_touch_device_memory();
    a_forked_child_is_refused();
  }
  std::printf("%d checks passed\n", passed.load());
  return 0;
}
