// Graphs: work that is captured once and replayed, where the driver has them.
//
// A capture begins on a stream, and the streams that join it by events are in it. One is under way in a process at a time;
// other streams go on meanwhile. Device memory that the capture takes comes from a pool of graphs alone, so that nobody else
// gets it as long as a graph of that pool is there.
#pragma once

#include <third_device/runtime.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace third_device {

TD_API bool has_graphs() noexcept;

TD_API extern std::atomic<bool> capture_under_way;  // of any stream; costs no more than to read it

// Whether what this thread enqueues on its current stream of `device` is captured.
TD_API bool is_capturing(int device) noexcept;

// Its end throws Error then, with this reason; the first one counts. For what nobody replays: what waits for the device.
TD_API void end_capture_broken(const std::string& reason) noexcept;

// Keeps what captured work points to as long as the graph. Throws Error where no capture is under way.
TD_API void keep_for_graph(std::shared_ptr<void> kept);

// To be called once `stream` waits on an event: if it joined the capture by that, its memory is of the graph's pool, too.
TD_API void note_wait(int device, StreamId stream);

// A pool for graphs that share memory, as PyTorch names pools: (a number, 0) or, of runtime.h, (0, its id), which
// its graphs hold. What one graph has freed another one takes.
using GraphPool = std::pair<uint64_t, uint64_t>;
TD_API GraphPool make_graph_pool() noexcept;

// One thread at a time. All but the destructor throw Error.
class TD_API Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // On this thread's current stream of its current device, which is not the default one. Pool (0, 0) is one of its own.
  void begin(GraphPool pool = {0, 0});
  void end();
  void replay();  // on this thread's current stream of the device that it was captured on
  // Waits for its replays and forgets the graph; tensors that were made in the capture lose nothing.
  void reset();
  GraphPool pool() const;

 private:
  int device_ = 0;
  td_graph graph_ = nullptr;
  GraphPool pool_{0, 0};
  std::vector<std::shared_ptr<void>> kept_;
  std::map<StreamId, td_event> replays_;  // the last one on each stream
};

}  // namespace third_device
