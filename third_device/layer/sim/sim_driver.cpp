#include <third_device/sim_driver.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

namespace third_device::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxDevices = 64;
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -1;
// Address space per device is a multiple of its memory, so that guard pages and fragmentation never cause a false "full".
constexpr size_t kSpread = 4;

thread_local std::string last_error;

td_status fail(td_status status, std::string text) {
  last_error = std::move(text);
  return status;
}

size_t env_size(const char* name, size_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  unsigned long long value = std::strtoull(text, &end, 10);
  return *end == '\0' ? static_cast<size_t>(value) : fallback;
}

// One record of an event: made by event_record, done when its stream reaches it.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock::time_point at{};

  void finish() {
    {
      std::lock_guard<std::mutex> hold(mutex);
      done = true;
      at = Clock::now();
    }
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> hold(mutex);
    changed.wait(hold, [this] { return done; });
  }
  bool is_done() {
    std::lock_guard<std::mutex> hold(mutex);
    return done;
  }
};

struct Device {
  std::mutex mutex;  // guards all below but the atomics
  char* base = nullptr;
  size_t span = 0;                  // bytes of address space; the view starts at base + span
  std::map<size_t, size_t> used;    // offset -> bytes, both in whole pages
  std::map<size_t, size_t> asked;   // offset -> bytes counted against the memory size
  size_t allocated = 0;
  size_t limit = 0;
  std::unordered_set<td_stream> streams;
  std::atomic<bool> lost{false};
};

// What trace_stop hands over. Names of records are literals.
struct Trace {
  std::atomic<bool> on{false};
  std::mutex mutex;
  std::vector<td_record> records;
};

thread_local uint64_t tag = 0;

int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

// One piece of work, to run once or at each launch of a graph.
struct Work {
  std::function<td_status()> run;
  const char* name = nullptr;  // of its record in a trace
  td_work kind = TD_WORK_KERNEL;
  size_t bytes = 0;
  bool runs_when_lost = false;
};

// What a stream runs of it.
struct Task {
  std::function<td_status()> run;
  bool runs_when_lost = false;
};

// The work of streams, in the order in which it was enqueued: one of those that the events between them allow.
struct Capture {
  // How many pieces of each stream's work come before what is enqueued next.
  using Seen = std::map<td_stream, size_t>;

  td_stream origin = nullptr;
  std::vector<Work> kept;
  std::map<td_stream, Seen> streams;
  std::string broken;  // why it ended before its end
  bool open = true;
};

struct World {
  bool absent = false;
  int count = 0;
  size_t page = 4096;
  std::vector<std::unique_ptr<Device>> devices;
  std::atomic<long long> fail_allocations{0};
  std::atomic<long long> fail_calls{0};
  std::atomic<long long> copy_delay_us{0};
  std::mutex pinned_mutex;
  std::map<const char*, size_t> pinned;
  Trace trace;
  std::atomic<int32_t> streams{0};
  std::mutex capture_mutex;  // of all captures, and what streams and events know of them; taken alone
  std::atomic<int> captures{0};
};

// Never destroyed: worker threads and late frees may outlive static destruction.
World& world() {
  static World* instance = [] {
    auto* made = new World;
    const char* driver = std::getenv("TD_SIM_DRIVER");
    made->absent = driver != nullptr && std::string(driver) == "absent";
    made->page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t count = env_size("TD_SIM_DEVICES", 2);
    made->count = made->absent ? 0 : static_cast<int>(count > kMaxDevices ? kMaxDevices : count);
    size_t memory = env_size("TD_SIM_MEMORY", size_t{1} << 30);
    for (int i = 0; i < made->count; ++i) {
      auto device = std::make_unique<Device>();
      device->limit = memory;
      device->span = (memory * kSpread + made->page - 1) / made->page * made->page;
      void* at = mmap(nullptr, device->span * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (at == MAP_FAILED) {
        made->count = i;
        break;
      }
      device->base = static_cast<char*>(at);
      made->devices.push_back(std::move(device));
    }
    return made;
  }();
  return *instance;
}

// Whether a fault is due; counts it.
bool due(std::atomic<long long>& left) {
  long long now = left.load();
  while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
  }
  return now > 0;
}

td_status find(int index, Device** device) {
  World& all = world();
  if (all.absent) return fail(TD_NO_DRIVER, "the simulated driver is absent (TD_SIM_DRIVER=absent)");
  if (index < 0 || index >= all.count) {
    return fail(TD_INVALID, "no device " + std::to_string(index) + ", there are " + std::to_string(all.count));
  }
  *device = all.devices[static_cast<size_t>(index)].get();  // also when it is lost
  if ((*device)->lost.load()) return fail(TD_DEVICE_LOST, "device " + std::to_string(index) + " was lost");
  return TD_OK;
}

// Not at all once the device is lost, but where its owner counts on it.
td_status run_task(int device, const Task& task) {
  if (!task.runs_when_lost && world().devices[static_cast<size_t>(device)]->lost.load()) {
    return fail(TD_DEVICE_LOST, "the device was lost while work was pending");
  }
  return task.run();
}

}  // namespace
}  // namespace third_device::sim

// The opaque types of the interface, in the global namespace where the header declares them.
struct td_event_s {
  int device = 0;
  bool timing = false;
  std::mutex mutex;
  std::shared_ptr<third_device::sim::Mark> mark;  // of the latest record; null before the first
  std::atomic<bool> in_capture{false};            // the latest record is in a graph
  std::shared_ptr<third_device::sim::Capture> capture;
  third_device::sim::Capture::Seen seen;

  std::shared_ptr<third_device::sim::Mark> latest() {
    std::lock_guard<std::mutex> hold(mutex);
    return mark;
  }
};

struct td_graph_s {
  int device = 0;
  std::vector<third_device::sim::Work> kept;
};

struct td_stream_s {
  int device = 0;
  int32_t number = 0;  // in traces
  std::mutex mutex;
  std::condition_variable added;  // for the worker
  std::condition_variable ended;  // for who waits for work
  // What to do, and the mark of the event that is recorded there, if any.
  std::deque<std::pair<third_device::sim::Task, std::shared_ptr<third_device::sim::Mark>>> queue;
  std::atomic<uint64_t> enqueued_count{0};
  uint64_t ended_count = 0;  // the worker's; others read it with the mutex held
  bool stopping = false;
  td_status error = TD_OK;  // of work that failed, until a query or synchronize reports it
  std::string error_text;
  std::shared_ptr<third_device::sim::Capture> capture;
  std::thread worker;

  void loop() {
    std::unique_lock<std::mutex> hold(mutex);
    for (;;) {
      if (queue.empty()) {
        // Work follows work within microseconds: to be woken costs the thread that adds it more than the work itself.
        hold.unlock();
        for (int look = 0; look < 50 && enqueued_count == ended_count; ++look) std::this_thread::yield();
        hold.lock();
      }
      added.wait(hold, [this] { return stopping || !queue.empty(); });
      if (queue.empty()) return;
      auto [task, mark] = std::move(queue.front());
      queue.pop_front();
      hold.unlock();
      td_status status = TD_OK;
      std::string text;
      try {
        status = third_device::sim::run_task(device, task);
        if (status != TD_OK) text = third_device::sim::last_error;
      } catch (const std::exception& error) {
        status = TD_FAILED;
        text = std::string("exception in work on the device: ") + error.what();
      } catch (...) {
        status = TD_FAILED;
        text = "unknown exception in work on the device";
      }
      task.run = nullptr;  // releases what it holds before the stream counts as idle
      hold.lock();
      ++ended_count;
      if (status != TD_OK && error == TD_OK) {
        error = status;
        error_text = std::move(text);
      }
      // With the mutex held: whoever learns that the event is done finds the stream idle, not still at the record.
      if (mark != nullptr) mark->finish();
      ended.notify_all();
    }
  }
  void push(third_device::sim::Task task, std::shared_ptr<third_device::sim::Mark> mark = nullptr) {
    {
      std::lock_guard<std::mutex> hold(mutex);
      queue.emplace_back(std::move(task), std::move(mark));
      ++enqueued_count;
    }
    added.notify_one();
  }
  bool idle() const { return ended_count == enqueued_count; }
  td_status take_error() {  // with the mutex held
    if (error == TD_OK) return TD_OK;
    td_status status = error;
    error = TD_OK;
    return third_device::sim::fail(status, std::move(error_text));
  }
  // Waits for what is enqueued now, and not for what other threads add meanwhile.
  td_status synchronize() {
    std::unique_lock<std::mutex> hold(mutex);
    ended.wait(hold, [this, last = enqueued_count.load()] { return ended_count >= last; });
    return take_error();
  }
};

namespace third_device::sim {
namespace {

const char* error_text() { return last_error.c_str(); }

// With the capture's mutex held. The first reason stays.
td_status end_broken(Capture& capture, const std::string& what) {
  if (capture.broken.empty()) capture.broken = what;
  return fail(TD_INVALID, "the stream's work is captured as a graph, which this has ended: " + capture.broken);
}

td_status init() {
  return world().absent ? fail(TD_NO_DRIVER, "the simulated driver is absent (TD_SIM_DRIVER=absent)") : TD_OK;
}

td_status device_count(int* count) {
  *count = world().count;
  return TD_OK;
}

td_status device_set(int index) {
  Device* device = nullptr;
  return find(index, &device);
}

td_status device_properties(int index, td_properties* properties) {
  Device* device = nullptr;
  if (td_status status = find(index, &device)) return status;
  *properties = td_properties{};
  std::snprintf(properties->name, sizeof properties->name, "simulated device %d", index);
  std::lock_guard<std::mutex> hold(device->mutex);
  properties->total_memory = device->limit;
  properties->major = 1;
  properties->units = static_cast<int32_t>(std::thread::hardware_concurrency());
  return TD_OK;
}

// TD_OK unless the stream is captured: then the capture is over.
td_status refuse_captured(td_stream stream, const std::string& what) {
  if (world().captures.load() == 0) return TD_OK;
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  if (stream->capture == nullptr) return TD_OK;
  return end_broken(*stream->capture, what);
}

td_status device_synchronize(int index) {
  Device* device = nullptr;
  const td_status found = find(index, &device);
  if (found != TD_OK && found != TD_DEVICE_LOST) return found;
  std::vector<td_stream> streams;
  {
    std::lock_guard<std::mutex> hold(device->mutex);
    streams.assign(device->streams.begin(), device->streams.end());
  }
  for (td_stream stream : streams) {
    if (td_status status = refuse_captured(stream, "waiting for its device")) return status;
  }
  td_status first = TD_OK;
  std::string text;
  for (td_stream stream : streams) {  // of a lost device, too: work that runs there still reads and writes its memory
    td_status status = stream->synchronize();
    if (first == TD_OK && status != TD_OK) {
      first = status;
      text = last_error;
    }
  }
  if (found != TD_OK) return fail(found, "device " + std::to_string(index) + " was lost");
  return first == TD_OK ? TD_OK : fail(first, text);
}

td_status memory_info(int index, size_t* free_bytes, size_t* total_bytes) {
  Device* device = nullptr;
  if (td_status status = find(index, &device)) return status;
  std::lock_guard<std::mutex> hold(device->mutex);
  *total_bytes = device->limit;
  *free_bytes = device->limit > device->allocated ? device->limit - device->allocated : 0;
  return TD_OK;
}

td_status memory_alloc(int index, size_t bytes, void** address) {
  *address = nullptr;
  Device* device = nullptr;
  if (td_status status = find(index, &device)) return status;
  if (bytes == 0) return TD_OK;
  World& all = world();
  if (due(all.fail_allocations)) return fail(TD_OUT_OF_MEMORY, "allocation failed on request (fault injection)");
  std::lock_guard<std::mutex> hold(device->mutex);
  if (bytes > device->limit || device->allocated > device->limit - bytes) {
    return fail(TD_OUT_OF_MEMORY, "device " + std::to_string(index) + " has " +
                                      std::to_string(device->limit - std::min(device->limit, device->allocated)) +
                                      " of " + std::to_string(device->limit) + " bytes left, " +
                                      std::to_string(bytes) + " asked");
  }
  size_t pages = (bytes + all.page - 1) / all.page * all.page;
  size_t offset = 0;
  for (const auto& [start, length] : device->used) {  // first fit, with one unused page after each allocation
    if (offset + pages + all.page <= start) break;
    offset = start + length + all.page;
  }
  if (offset + pages > device->span) return fail(TD_OUT_OF_MEMORY, "address space of the device is used up");
  if (mprotect(device->base + device->span + offset, pages, PROT_READ | PROT_WRITE) != 0) {
    return fail(TD_OUT_OF_MEMORY, "the host has no memory left for the simulated device");
  }
  device->used[offset] = pages;
  device->asked[offset] = bytes;
  device->allocated += bytes;
  *address = device->base + offset;
  return TD_OK;
}

td_status memory_free(int index, void* address) {
  if (address == nullptr) return TD_OK;
  World& all = world();
  if (index < 0 || index >= all.count) return fail(TD_INVALID, "no such device");
  Device& device = *all.devices[static_cast<size_t>(index)];  // also when lost: freeing then is bookkeeping only
  std::lock_guard<std::mutex> hold(device.mutex);
  auto offset = static_cast<size_t>(static_cast<char*>(address) - device.base);
  auto found = device.used.find(offset);
  if (found == device.used.end()) return fail(TD_INVALID, "not the start of an allocation on this device");
  char* view = device.base + device.span + offset;
  madvise(view, found->second, MADV_DONTNEED);
  mprotect(view, found->second, PROT_NONE);
  device.allocated -= device.asked[offset];
  device.asked.erase(offset);
  device.used.erase(found);
  return TD_OK;
}

td_status memory_owner(const void* address, td_memory* kind, int* index) {
  World& all = world();
  const char* at = static_cast<const char*>(address);
  *kind = TD_MEMORY_UNKNOWN;
  *index = TD_HOST;
  for (int i = 0; i < all.count; ++i) {
    Device& device = *all.devices[static_cast<size_t>(i)];
    if (at >= device.base && at < device.base + device.span) {
      *kind = TD_MEMORY_DEVICE;
      *index = i;
      return TD_OK;
    }
  }
  std::lock_guard<std::mutex> hold(all.pinned_mutex);
  auto after = all.pinned.upper_bound(at);
  if (after != all.pinned.begin() && at < std::prev(after)->first + std::prev(after)->second) {
    *kind = TD_MEMORY_HOST_PINNED;
  }
  return TD_OK;
}

td_status live(td_stream stream) {
  if (stream == nullptr) return fail(TD_INVALID, "null stream");
  Device* device = nullptr;
  return find(stream->device, &device);
}

// What runs of a piece of work: with a record of it where a trace is going on.
Task prepare(td_stream stream, Work work) {
  Trace& trace = world().trace;
  if (trace.on.load()) {
    td_record record{};
    record.kind = work.kind;
    record.name = work.name;
    record.device = stream->device;
    record.stream = stream->number;
    record.bytes = work.bytes;
    record.tag = tag;
    record.thread = static_cast<int32_t>(syscall(SYS_gettid));
    record.called = record.returned = now();
    work.run = [&trace, record, run = std::move(work.run)]() mutable {
      record.began = now();
      td_status status = run();
      record.ended = now();
      std::lock_guard<std::mutex> hold(trace.mutex);
      trace.records.push_back(record);
      return status;
    };
  }
  return {std::move(work.run), work.runs_when_lost};
}

td_status enqueue(td_stream stream, Work work) {
  if (world().captures.load() > 0) {
    std::lock_guard<std::mutex> hold(world().capture_mutex);
    if (Capture* capture = stream->capture.get()) {
      if (!capture->broken.empty()) return end_broken(*capture, {});
      capture->kept.push_back(std::move(work));
      ++capture->streams[stream][stream];
      return TD_OK;
    }
  }
  stream->push(prepare(stream, std::move(work)));
  return TD_OK;
}

td_status memory_set(void* address, int value, size_t bytes, td_stream stream) {
  if (td_status status = live(stream)) return status;
  const auto run = [=] {
    std::memset(sim_view(address), value, bytes);
    return TD_OK;
  };
  return enqueue(stream, {run, "set", TD_WORK_SET, bytes});
}

bool is_pinned(const void* address) {
  td_memory kind{};
  int owner = 0;
  return memory_owner(address, &kind, &owner) == TD_OK && kind == TD_MEMORY_HOST_PINNED;
}

td_status copy(void* to, int to_device, const void* from, int from_device, size_t bytes, td_stream stream) {
  if (td_status status = live(stream)) return status;
  const bool capturing = world().captures.load() > 0;
  if (capturing && ((to_device == TD_HOST && !is_pinned(to)) || (from_device == TD_HOST && !is_pinned(from)))) {
    if (td_status status = refuse_captured(stream, "a copy whose host memory is not pinned")) return status;
  }
  const char* name = to_device == TD_HOST     ? "copy from device to host"
                     : from_device == TD_HOST ? "copy from host to device"
                                              : "copy from device to device";
  const auto run = [=] {
    if (long long delay = world().copy_delay_us.load()) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    std::memmove(sim_view(to), sim_view(from), bytes);
    return TD_OK;
  };
  return enqueue(stream, {run, name, TD_WORK_COPY, bytes});
}

td_status host_alloc(size_t bytes, void** address) {
  World& all = world();
  size_t rounded = (bytes + all.page - 1) / all.page * all.page;
  *address = std::aligned_alloc(all.page, rounded == 0 ? all.page : rounded);
  if (*address == nullptr) return fail(TD_OUT_OF_MEMORY, "the host has no memory left to pin");
  std::lock_guard<std::mutex> hold(all.pinned_mutex);
  all.pinned[static_cast<const char*>(*address)] = bytes;
  return TD_OK;
}

td_status host_free(void* address) {
  World& all = world();
  {
    std::lock_guard<std::mutex> hold(all.pinned_mutex);
    if (all.pinned.erase(static_cast<const char*>(address)) == 0) return fail(TD_INVALID, "not pinned memory");
  }
  std::free(address);
  return TD_OK;
}

td_status stream_priorities(int* lowest, int* highest) {
  *lowest = kLowestPriority;
  *highest = kHighestPriority;
  return TD_OK;
}

td_status stream_create(int index, int, td_stream* stream) {
  Device* device = nullptr;
  if (td_status status = find(index, &device)) return status;
  auto* made = new td_stream_s;
  made->device = index;
  made->number = world().streams.fetch_add(1);
  made->worker = std::thread([made] { made->loop(); });
  std::lock_guard<std::mutex> hold(device->mutex);
  device->streams.insert(made);
  *stream = made;
  return TD_OK;
}

td_status stream_destroy(td_stream stream) {
  if (stream == nullptr) return fail(TD_INVALID, "null stream");
  Device& device = *world().devices[static_cast<size_t>(stream->device)];
  if (td_status status = refuse_captured(stream, "destroying a stream")) return status;
  {
    std::lock_guard<std::mutex> hold(device.mutex);
    device.streams.erase(stream);
  }
  {
    std::lock_guard<std::mutex> hold(stream->mutex);
    stream->stopping = true;
  }
  stream->added.notify_all();
  stream->worker.join();
  delete stream;
  return TD_OK;
}

td_status stream_query(td_stream stream) {
  if (td_status status = live(stream)) return status;
  if (td_status status = refuse_captured(stream, "asking whether it is idle")) return status;
  std::lock_guard<std::mutex> hold(stream->mutex);
  return stream->idle() ? stream->take_error() : TD_NOT_READY;
}

td_status stream_synchronize(td_stream stream) {
  if (stream == nullptr) return fail(TD_INVALID, "null stream");
  if (td_status status = refuse_captured(stream, "waiting for it")) return status;
  td_status status = stream->synchronize();  // first: work that is pending ends, with an error, even on a lost device
  return status != TD_OK ? status : live(stream);
}

// An event of a capture: the stream joins it, if it did not yet, and goes on behind what the event stands for.
td_status join(td_stream stream, td_event event) {
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  Capture* capture = event->capture.get();
  if (!capture->open) return fail(TD_INVALID, "the event was recorded in a graph, and nobody waits for it but in that");
  if (stream->capture != nullptr && stream->capture != event->capture) {
    return end_broken(*stream->capture, "waiting for another graph's event");
  }
  if (!capture->broken.empty()) return end_broken(*capture, {});
  stream->capture = event->capture;
  Capture::Seen& seen = capture->streams[stream];
  for (const auto& [each, count] : event->seen) seen[each] = std::max(seen[each], count);
  return TD_OK;
}

td_status stream_wait(td_stream stream, td_event event) {
  if (td_status status = live(stream)) return status;
  if (event->in_capture.load()) return join(stream, event);
  std::shared_ptr<Mark> mark = event->latest();
  if (mark == nullptr) return TD_OK;
  if (td_status status = refuse_captured(stream, "waiting for an event that is not in the graph")) return status;
  const auto run = [mark] {
    mark->wait();
    return TD_OK;
  };
  stream->push({run});
  return TD_OK;
}

td_status stream_call(td_stream stream, td_callback function, void* argument) {
  if (td_status status = live(stream)) return status;
  const auto run = [=] {
    td_status status = function(argument);
    if (due(world().fail_calls)) throw std::runtime_error("a call failed on request (fault injection)");
    return status;
  };
  // Runs on a lost device too: the argument's owner counts on the call to give it back.
  return enqueue(stream, {run, nullptr, TD_WORK_KERNEL, 0, true});
}

td_status event_create(int index, int timing, td_event* event) {
  Device* device = nullptr;
  if (td_status status = find(index, &device)) return status;
  auto* made = new td_event_s;
  made->device = index;
  made->timing = timing != 0;
  *event = made;
  return TD_OK;
}

td_status event_destroy(td_event event) {
  delete event;  // pending work holds the mark, not the event
  return TD_OK;
}

td_status event_record(td_event event, td_stream stream) {
  if (td_status status = live(stream)) return status;
  if (world().captures.load() > 0) {
    std::lock_guard<std::mutex> hold(world().capture_mutex);
    if (Capture* capture = stream->capture.get()) {
      if (!capture->broken.empty()) return end_broken(*capture, {});
      event->capture = stream->capture;
      event->seen = capture->streams[stream];
      event->in_capture = true;
      return TD_OK;
    }
  }
  event->in_capture = false;
  auto mark = std::make_shared<Mark>();
  {
    std::lock_guard<std::mutex> hold(event->mutex);
    event->mark = mark;
  }
  // Pushed without the check for a lost device: who waits for the event must wake up in any case.
  stream->push({[] { return TD_OK; }, true}, mark);
  return TD_OK;
}

// TD_OK unless the event is one of a graph: it has no time of its own, and a capture that is under way is over.
td_status refuse_captured(td_event event, const std::string& what) {
  if (!event->in_capture.load()) return TD_OK;
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  if (event->capture->open) return end_broken(*event->capture, what);
  return fail(TD_INVALID, "the event was recorded in a graph: it is not of one launch");
}

td_status event_query(td_event event) {
  if (td_status status = refuse_captured(event, "asking for an event")) return status;
  std::shared_ptr<Mark> mark = event->latest();
  return mark == nullptr || mark->is_done() ? TD_OK : TD_NOT_READY;
}

td_status event_synchronize(td_event event) {
  if (td_status status = refuse_captured(event, "waiting for an event")) return status;
  if (std::shared_ptr<Mark> mark = event->latest()) mark->wait();
  return TD_OK;
}

td_status event_elapsed(td_event start, td_event end, double* milliseconds) {
  if (!start->timing || !end->timing) return fail(TD_INVALID, "both events must be created with timing enabled");
  for (td_event event : {start, end}) {
    if (td_status status = refuse_captured(event, "timing between events")) return status;
  }
  auto first = start->latest();
  auto second = end->latest();
  if (first == nullptr || second == nullptr) return fail(TD_INVALID, "both events must have been recorded");
  if (!first->is_done() || !second->is_done()) return fail(TD_NOT_READY, "both events must have completed");
  *milliseconds = std::chrono::duration<double, std::milli>(second->at - first->at).count();
  return TD_OK;
}

td_status graph_begin(td_stream stream) {
  if (td_status status = live(stream)) return status;
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  if (stream->capture != nullptr) return end_broken(*stream->capture, "beginning another graph");
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->streams[stream];
  ++world().captures;
  return TD_OK;
}

td_status graph_end(td_stream stream, td_graph* graph) {
  *graph = nullptr;
  if (stream == nullptr) return fail(TD_INVALID, "null stream");
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return fail(TD_INVALID, "the stream is not captured");
  if (capture->origin != stream) return end_broken(*capture, "its end on a stream that it did not begin on");
  capture->open = false;
  --world().captures;
  const Capture::Seen& joined = capture->streams[stream];
  for (const auto& [each, seen] : capture->streams) {
    each->capture = nullptr;
    const auto own = seen.find(each);
    const auto waited = joined.find(each);
    if (own == seen.end() || (waited != joined.end() && waited->second >= own->second)) continue;
    if (capture->broken.empty()) capture->broken = "work of another stream that the first one does not wait for";
  }
  if (!capture->broken.empty()) return fail(TD_INVALID, "there is no graph, its capture ended before: " + capture->broken);
  *graph = new td_graph_s{stream->device, std::move(capture->kept)};
  return TD_OK;
}

td_status graph_launch(td_graph graph, td_stream stream) {
  if (td_status status = live(stream)) return status;
  if (graph->device != stream->device) return fail(TD_INVALID, "the graph is of another device");
  if (td_status status = refuse_captured(stream, "launching another graph")) return status;
  std::vector<Task> all;
  for (const Work& work : graph->kept) all.push_back(prepare(stream, work));
  auto run = [device = stream->device, all = std::move(all)]() -> td_status {
    for (const Task& task : all) {
      if (td_status status = run_task(device, task)) return status;
    }
    return TD_OK;
  };
  stream->push({std::move(run), true});  // each of its pieces says what it does on a lost device
  return TD_OK;
}

td_status graph_destroy(td_graph graph) {
  delete graph;
  return TD_OK;
}

td_status graph_captures(td_stream stream, int* captures) {
  *captures = 0;
  if (stream == nullptr) return fail(TD_INVALID, "null stream");
  if (world().captures.load() == 0) return TD_OK;
  std::lock_guard<std::mutex> hold(world().capture_mutex);
  *captures = stream->capture != nullptr && stream->capture->broken.empty();
  return TD_OK;
}

td_status trace_start() {
  Trace& trace = world().trace;
  std::lock_guard<std::mutex> hold(trace.mutex);
  trace.records.clear();
  trace.on = true;
  return TD_OK;
}

td_status trace_stop(td_record_sink sink, void* argument) {
  Trace& trace = world().trace;
  trace.on = false;
  std::vector<td_record> records;
  {
    std::lock_guard<std::mutex> hold(trace.mutex);
    records.swap(trace.records);
  }
  for (const td_record& record : records) sink(argument, &record);
  return TD_OK;
}

td_status trace_tag(uint64_t value) {
  tag = value;
  return TD_OK;
}

// The names go to the file that TD_SIM_NAMES names, as a vendor's tool would get them.
void told(const char* what, const char* name) {
  const char* path = std::getenv("TD_SIM_NAMES");
  std::FILE* file = path == nullptr || *path == '\0' ? nullptr : std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%s %s\n", what, name);
  std::fclose(file);
}

void range_push(const char* name) { told("push", name); }
void range_pop() { told("pop", ""); }
void mark(const char* name) { told("mark", name); }

// The keys: "memory_bytes" (of every device), "fail_allocations" (the next n fail), "fail_calls" (the next n kernels and
// other enqueued calls throw when they are done), "lose_device" (its index), "restore_device", "copy_delay_us" (each copy
// sleeps that long first).
td_status control(const char* key, long long value) {
  World& all = world();
  const std::string name = key;
  if (name == "memory_bytes") {
    for (auto& device : all.devices) {
      std::lock_guard<std::mutex> hold(device->mutex);
      if (value < 0 || static_cast<size_t>(value) > device->span) return fail(TD_INVALID, "memory_bytes out of range");
      device->limit = static_cast<size_t>(value);
    }
    return TD_OK;
  }
  if (name == "fail_allocations") {
    all.fail_allocations = value;
    return TD_OK;
  }
  if (name == "fail_calls") {
    all.fail_calls = value;
    return TD_OK;
  }
  if (name == "copy_delay_us") {
    all.copy_delay_us = value;
    return TD_OK;
  }
  if (name == "lose_device" || name == "restore_device") {
    if (value < 0 || value >= all.count) return fail(TD_INVALID, "no such device");
    all.devices[static_cast<size_t>(value)]->lost = name == "lose_device";
    return TD_OK;
  }
  return fail(TD_INVALID, "unknown key " + name);
}

}  // namespace

void* sim_view(const void* address) {
  World& all = world();
  char* at = static_cast<char*>(const_cast<void*>(address));
  for (auto& device : all.devices) {
    if (at >= device->base && at < device->base + device->span) return at + device->span;
  }
  return at;
}

const td_driver* sim_driver() {
  static const td_driver table = [] {
    td_driver made{};
    made.abi = TD_DRIVER_ABI;
#define MEMBER(name) made.name = name
    MEMBER(error_text);
    MEMBER(init);
    MEMBER(device_count);
    MEMBER(device_set);
    MEMBER(device_properties);
    MEMBER(device_synchronize);
    MEMBER(memory_info);
    MEMBER(memory_alloc);
    MEMBER(memory_free);
    MEMBER(memory_owner);
    MEMBER(memory_set);
    MEMBER(copy);
    MEMBER(host_alloc);
    MEMBER(host_free);
    MEMBER(stream_priorities);
    MEMBER(stream_create);
    MEMBER(stream_destroy);
    MEMBER(stream_query);
    MEMBER(stream_synchronize);
    MEMBER(stream_wait);
    MEMBER(stream_call);
    MEMBER(event_create);
    MEMBER(event_destroy);
    MEMBER(event_record);
    MEMBER(event_query);
    MEMBER(event_synchronize);
    MEMBER(event_elapsed);
    MEMBER(control);
    MEMBER(trace_start);
    MEMBER(trace_stop);
    MEMBER(trace_tag);
    MEMBER(range_push);
    MEMBER(range_pop);
    MEMBER(mark);
    MEMBER(graph_begin);
    MEMBER(graph_end);
    MEMBER(graph_launch);
    MEMBER(graph_destroy);
    MEMBER(graph_captures);
#undef MEMBER
    return made;
  }();
  return &table;
}

}  // namespace third_device::sim
