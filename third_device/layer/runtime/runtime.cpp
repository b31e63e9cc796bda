#include <third_device/runtime.h>
#include <third_device/stable.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace third_device {
namespace {

constexpr int kPools = 2;  // normal, high
constexpr int kSlots = 1 + kPools * kStreamsPerPool;

struct DeviceStreams {
  std::array<std::atomic<td_stream>, kSlots> native{};
  std::array<std::atomic<unsigned>, kPools> next{};
  std::mutex lock;
  std::vector<td_stream> external;  // under the lock; their ids follow the slots'
};

std::atomic<const td_driver*> replacement{nullptr};
std::atomic<bool> started{false};
std::atomic<bool> bad_fork{false};
std::mutex start_mutex;

thread_local int this_device = 0;
thread_local std::vector<StreamId> this_streams;

// Never destroyed: tensors may be freed after static destruction began.
std::vector<std::unique_ptr<DeviceStreams>>& all_streams() {
  static auto* instance = [] {
    auto* made = new std::vector<std::unique_ptr<DeviceStreams>>;
    for (int i = 0; i < device_count(); ++i) made->push_back(std::make_unique<DeviceStreams>());
    return made;
  }();
  return *instance;
}

DeviceStreams& streams_of(int device) {
  check_device(device);
  return *all_streams()[static_cast<size_t>(device)];
}

}  // namespace

std::atomic<Watch> watch{nullptr};

const td_driver& driver() {
  if (const td_driver* other = replacement.load(std::memory_order_acquire)) return *other;
  static const td_driver* table = [] {
    const td_driver* given = third_device_driver();
    if (given == nullptr || given->abi != TD_DRIVER_ABI) {
      throw Error(TD_INVALID, "third_device_driver() returned a table of another interface version, expected " +
                                  std::to_string(TD_DRIVER_ABI));
    }
    return given;
  }();
  return *table;
}

void replace_driver(const td_driver* table) noexcept { replacement.store(table, std::memory_order_release); }
bool is_driver_replaced() noexcept { return replacement.load(std::memory_order_acquire) != nullptr; }

void check(td_status status, const char* what) {
  if (status == TD_OK) return;
  const char* detail = driver().error_text();
  std::string text = std::string(what) + ": " + (detail != nullptr && *detail != '\0' ? detail : "no detail given");
  if (status == TD_OUT_OF_MEMORY) throw OutOfMemory(text);
  throw Error(status, text + " (driver status " + std::to_string(static_cast<int>(status)) + ")");
}

int device_count() noexcept {
  static const int count = []() noexcept {
    int found = 0;
    try {
      if (driver().device_count(&found) != TD_OK || found < 0) found = 0;
    } catch (...) {
      found = 0;
    }
    return found;
  }();
  return count;
}

void ensure_init() {
  if (bad_fork.load(std::memory_order_relaxed)) {
    throw Error(TD_INVALID,
                "cannot re-initialize the device in a forked subprocess; to use it with multiprocessing, "
                "use the 'spawn' start method");
  }
  if (started.load(std::memory_order_acquire)) return;
  std::lock_guard<std::mutex> hold(start_mutex);
  if (started.load(std::memory_order_relaxed)) return;
  check(driver().init(), "starting the driver");
  if (device_count() == 0) throw Error(TD_NO_DRIVER, "no device is available");
  pthread_atfork(nullptr, nullptr, [] { bad_fork.store(true); });
  started.store(true, std::memory_order_release);
}

bool is_initialized() noexcept { return started.load(std::memory_order_acquire) && !bad_fork.load(); }

bool is_bad_fork() noexcept { return bad_fork.load(); }

void check_device(int device) {
  if (device < 0 || device >= device_count()) {
    throw Error(TD_INVALID, "invalid device ordinal " + std::to_string(device) + ": there are " +
                                std::to_string(device_count()) + " devices");
  }
}

int current_device() noexcept { return this_device; }

void set_device(int device) {
  check_device(device);
  ensure_init();
  // A lost device can be current: what is done on it says that it is gone. Autograd's threads make their device current
  // where an exception would end the process (torch/csrc/autograd/engine.cpp: Engine::thread_main).
  if (td_status status = driver().device_set(device); status != TD_DEVICE_LOST) check(status, "setting the device");
  this_device = device;
}

int exchange_device(int device) {
  int former = this_device;
  if (device >= 0 && device != former) set_device(device);
  return former;
}

void unchecked_set_device(int device) noexcept {
  if (device < 0 || device >= device_count() || device == this_device) return;
  driver().device_set(device);
  this_device = device;
}

StreamId current_stream(int device) noexcept {
  auto slot = static_cast<size_t>(device < 0 ? this_device : device);
  return slot < this_streams.size() ? this_streams[slot] : kDefaultStream;
}

StreamId exchange_stream(int device, StreamId stream) noexcept {
  auto slot = static_cast<size_t>(device < 0 ? this_device : device);
  if (slot >= this_streams.size()) this_streams.resize(slot + 1, kDefaultStream);
  return std::exchange(this_streams[slot], stream);
}

StreamId stream_from_pool(int device, int priority) {
  DeviceStreams& streams = streams_of(device);
  const int pool = priority < 0 ? 1 : 0;
  unsigned turn = streams.next[static_cast<size_t>(pool)].fetch_add(1) % kStreamsPerPool;
  StreamId id = 1 + pool * kStreamsPerPool + static_cast<int>(turn);
  const bool there = streams.native[static_cast<size_t>(id)].load(std::memory_order_acquire) != nullptr;
  td_stream made = native_stream(device, id);
  if (!there) tell(Happening::kStreamCreation, made);
  return id;
}

td_stream native_stream(int device, StreamId stream) {
  ensure_init();
  DeviceStreams& streams = streams_of(device);
  if (stream >= kSlots) {
    std::lock_guard<std::mutex> hold(streams.lock);
    if (const auto place = static_cast<size_t>(stream - kSlots); place < streams.external.size()) return streams.external[place];
  }
  if (stream < 0 || stream >= kSlots) {
    throw Error(TD_INVALID, "no stream with id " + std::to_string(stream) + " on device " + std::to_string(device));
  }
  auto& slot = streams.native[static_cast<size_t>(stream)];
  if (td_stream made = slot.load(std::memory_order_acquire)) return made;
  static std::mutex making;
  std::lock_guard<std::mutex> hold(making);
  if (td_stream made = slot.load(std::memory_order_relaxed)) return made;
  int lowest = 0;
  int highest = 0;
  check(driver().stream_priorities(&lowest, &highest), "asking for stream priorities");
  td_stream made = nullptr;
  check(driver().stream_create(device, stream > kStreamsPerPool ? highest : lowest, &made), "making a stream");
  slot.store(made, std::memory_order_release);
  return made;
}

StreamId external_stream(int device, td_stream stream) {
  if (stream == nullptr) throw Error(TD_INVALID, "an external stream has an address, this is null");
  ensure_init();
  DeviceStreams& streams = streams_of(device);
  std::lock_guard<std::mutex> hold(streams.lock);
  auto found = std::find(streams.external.begin(), streams.external.end(), stream);
  const auto place = found - streams.external.begin();
  if (found == streams.external.end()) streams.external.push_back(stream);
  return kSlots + place;
}

td_stream native_current_stream(int device) { return native_stream(device, current_stream(device)); }

void order_after(td_stream later, td_stream earlier, int device) {
  td_event event = nullptr;
  check(driver().event_create(device, 0, &event), "making an event");
  tell(Happening::kEventCreation, event);
  td_status status = driver().event_record(event, earlier);
  if (status == TD_OK) tell(Happening::kEventRecord, event, earlier);
  if (status == TD_OK) status = driver().stream_wait(later, event);
  if (status == TD_OK) tell(Happening::kEventWait, event, later);
  tell(Happening::kEventDeletion, event);
  driver().event_destroy(event);
  check(status, "ordering streams");
}

void synchronize_current(int device) {
  td_stream stream = native_current_stream(device);
  tell(Happening::kStreamSynchronization, stream);
  check(driver().stream_synchronize(stream), "waiting for a stream");
}

void synchronize_device(int device) {
  check_device(device);
  ensure_init();
  tell(Happening::kDeviceSynchronization);
  check(driver().device_synchronize(device), "waiting for a device");
}

}  // namespace third_device

const td_driver* third_device_table(void) { return &third_device::driver(); }

td_status third_device_current_stream(int device, td_stream* stream) {
  try {
    *stream = third_device::native_current_stream(device);
    return TD_OK;
  } catch (const third_device::Error& error) {
    return error.status;
  }
}
