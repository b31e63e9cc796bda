#include <third_device/graphs.h>

#include <third_device/allocators.h>

#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace third_device {
namespace {

const GraphPool kNoPool{0, 0};

struct Capture {
  const Graph* graph;
  int device;
  StreamId stream;
  GraphPool pool;
  std::set<std::pair<int, StreamId>> streams;  // whose memory is of the pool
  std::vector<std::shared_ptr<void>> kept;
  std::string broken;
};

struct Pool {
  int graphs = 0;
  std::map<int, device_memory::PoolId> of_device;
};

struct Graphs {
  std::mutex mutex;
  std::optional<Capture> capture;
  std::map<GraphPool, Pool> pools;
  uint64_t named = 0;
};

Graphs& graphs() {
  static auto* instance = new Graphs;
  return *instance;
}

bool asks_captured(int device, StreamId stream) {
  int captures = 0;
  check(driver().graph_captures(native_stream(device, stream), &captures), "asking whether a stream is captured");
  return captures != 0;
}

// With the lock held.
void enter(Capture& capture, int device, StreamId stream) {
  if (!capture.streams.insert({device, stream}).second) return;
  auto& of_device = graphs().pools[capture.pool].of_device;
  auto found = of_device.find(device);
  if (found == of_device.end()) {
    auto pool = device == capture.device ? capture.pool.second : 0;
    if (pool != 0) device_memory::hold_pool(device, pool);
    else pool = device_memory::make_pool(device);
    found = of_device.emplace(device, pool).first;
  }
  device_memory::enter_pool(device, found->second, stream, /*first=*/true);  // what a replay writes to serves nobody else
}

// With the lock held.
void leave_all(const Capture& capture) {
  const auto& of_device = graphs().pools[capture.pool].of_device;
  for (const auto& [device, stream] : capture.streams) {
    const auto found = of_device.find(device);
    if (found == of_device.end()) continue;
    try {
      device_memory::leave_pool(device, found->second);
    } catch (const Error&) {  // somebody left or dropped it once too often
    }
  }
}

// With the lock held.
void give_up(GraphPool pool) {
  auto found = graphs().pools.find(pool);
  if (--found->second.graphs > 0) return;
  for (const auto& [device, id] : found->second.of_device) device_memory::drop_pool(device, id);
  graphs().pools.erase(found);
}

}  // namespace

std::atomic<bool> capture_under_way{false};

bool has_graphs() noexcept {
  try {
    const td_driver& table = driver();
    return table.graph_begin != nullptr && table.graph_end != nullptr && table.graph_launch != nullptr &&
           table.graph_destroy != nullptr && table.graph_captures != nullptr;
  } catch (const Error&) {  // whoever uses the device is told
    return false;
  }
}

bool is_capturing(int device) noexcept {
  if (!capture_under_way.load(std::memory_order_acquire)) return false;
  try {
    return asks_captured(device, current_stream(device));
  } catch (const Error&) {
    return false;
  }
}

void end_capture_broken(const std::string& reason) noexcept {
  std::lock_guard<std::mutex> hold(graphs().mutex);
  if (graphs().capture.has_value() && graphs().capture->broken.empty()) graphs().capture->broken = reason;
}

void keep_for_graph(std::shared_ptr<void> kept) {
  std::lock_guard<std::mutex> hold(graphs().mutex);
  if (!graphs().capture.has_value()) throw Error(TD_INVALID, "no graph is captured");
  graphs().capture->kept.push_back(std::move(kept));
}

void note_wait(int device, StreamId stream) {
  if (!capture_under_way.load(std::memory_order_acquire) || !asks_captured(device, stream)) return;
  std::lock_guard<std::mutex> hold(graphs().mutex);
  if (graphs().capture.has_value()) enter(*graphs().capture, device, stream);
}

GraphPool make_graph_pool() noexcept {
  std::lock_guard<std::mutex> hold(graphs().mutex);
  return {++graphs().named, 0};
}

void Graph::begin(GraphPool pool) {
  if (!has_graphs()) throw Error(TD_INVALID, "the driver table has no capture of a stream's work");
  if (pool_ != kNoPool) throw Error(TD_INVALID, "this graph is captured already; next: reset() it, or make another one");
  ensure_init();
  const int device = current_device();
  const StreamId stream = current_stream(device);
  if (stream == kDefaultStream) {
    throw Error(TD_INVALID, "a graph is not captured on the default stream, which other threads use; next: make another "
                            "stream current");
  }
  td_stream native = native_stream(device, stream);
  if (pool == kNoPool) pool = make_graph_pool();
  std::lock_guard<std::mutex> hold(graphs().mutex);
  if (graphs().capture.has_value()) {
    throw Error(TD_INVALID, "another graph is captured at this moment, and a process captures one at a time");
  }
  graphs().capture = Capture{this, device, stream, pool, {}, {}, {}};
  ++graphs().pools[pool].graphs;
  try {
    enter(*graphs().capture, device, stream);
    check(driver().graph_begin(native), "beginning a graph");
  } catch (const Error&) {
    leave_all(*graphs().capture);
    graphs().capture.reset();
    give_up(pool);
    throw;
  }
  capture_under_way.store(true, std::memory_order_release);
  device_ = device;
  pool_ = pool;
}

void Graph::end() {
  std::exception_ptr failed;
  {
    std::lock_guard<std::mutex> hold(graphs().mutex);
    if (!graphs().capture.has_value() || graphs().capture->graph != this) {
      throw Error(TD_INVALID, "this graph is not being captured");
    }
    Capture& capture = *graphs().capture;
    try {
      check(driver().graph_end(native_stream(capture.device, capture.stream), &graph_), "ending a graph");
      if (!capture.broken.empty()) throw Error(TD_INVALID, "there is no graph, its capture was ended: " + capture.broken);
    } catch (const Error&) {
      failed = std::current_exception();
    }
    leave_all(capture);
    kept_ = std::move(capture.kept);
    graphs().capture.reset();
    capture_under_way.store(false, std::memory_order_release);
  }
  if (!failed) return;
  reset();
  std::rethrow_exception(failed);
}

void Graph::replay() {
  if (graph_ == nullptr) throw Error(TD_INVALID, "there is nothing to replay; next: capture a graph");
  const StreamId stream = current_stream(device_);
  td_stream native = native_stream(device_, stream);
  check(driver().graph_launch(graph_, native), "replaying a graph");
  td_event& event = replays_[stream];
  if (event == nullptr) check(driver().event_create(device_, 0, &event), "making an event");
  check(driver().event_record(event, native), "recording an event");
}

void Graph::reset() {
  bool captured = false;
  {
    std::lock_guard<std::mutex> hold(graphs().mutex);
    captured = graphs().capture.has_value() && graphs().capture->graph == this;
  }
  if (captured) {
    end_capture_broken("its graph was reset");
    try {
      end();  // which comes here again
    } catch (const Error&) {
    }
    return;
  }
  for (const auto& [stream, event] : replays_) {
    if (event == nullptr) continue;
    driver().event_synchronize(event);
    driver().event_destroy(event);
  }
  replays_.clear();
  if (graph_ != nullptr) driver().graph_destroy(std::exchange(graph_, nullptr));
  kept_.clear();
  if (pool_ == kNoPool) return;
  std::lock_guard<std::mutex> hold(graphs().mutex);
  give_up(std::exchange(pool_, kNoPool));
}

Graph::~Graph() {
  if (is_bad_fork()) return;
  try {
    reset();
  } catch (const Error&) {  // told by who waits for the device
  }
}

GraphPool Graph::pool() const {
  if (pool_ == kNoPool) throw Error(TD_INVALID, "a graph has a pool once its capture has begun");
  return pool_;
}

}  // namespace third_device
