// Streams as virtual time lines, and what they carry: work that runs at once, or is recorded into a graph.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "ledger.h"
#include "world.h"

struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::vector<CUgraphNode_st*> needs;  // the nodes that must be done before
  std::function<void()> work;          // null: a kernel, which is not executed
  std::string label;
  uint64_t cost;  // ns
  std::shared_ptr<void> memory{};  // of an allocation node
  bool shadow = false;             // computes a value, which on a GPU a kernel does: no node of the program
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  cudaGraphNode_t add(CUgraphNode_st node) {
    nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
    return nodes.back().get();
  }
};

namespace sim {
struct Capture {
  unsigned long long id;
  cudaStreamCaptureMode mode;
  cudaStream_t origin;
  std::thread::id thread;
  std::vector<cudaStream_t> streams;
  std::unique_ptr<CUgraph_st> graph;
  bool broken;
};
}  // namespace sim

struct CUstream_st {
  int device;
  unsigned flags;
  int priority;
  unsigned long long id;
  bool is_null;             // the legacy default stream of its device
  uint64_t busy = 0;        // when the work enqueued so far is done
  sim::Capture* capture = nullptr;
  std::vector<CUgraphNode_st*> tail;  // of the capture: what the next node must wait for

  bool blocking() const { return !(flags & cudaStreamNonBlocking); }
  sim::ledger::StreamName name() const { return {device, id, is_null, !is_null && blocking()}; }
};

struct CUevent_st {
  int device;
  unsigned flags;
  bool recorded = false;
  sim::ledger::StreamName recorded_in{};
  uint64_t time = 0;
  unsigned long long capture = 0;  // id of the capture it was last recorded in
  std::vector<CUgraphNode_st*> after{};
  struct SharedEvent* shared = nullptr;  // for interprocess events: page with the time
  int file = -1;                         // of that page, in the process that made it
};

namespace sim {

unsigned long long next_id();
std::unordered_set<cudaStream_t>& streams();
std::vector<std::unique_ptr<Capture>>& captures();
Capture* capture_by_id(unsigned long long id);

// The stream behind a handle; the null handles mean the current device's. Null when there is none.
cudaStream_t stream_of(cudaStream_t handle);

// When work given to the stream now could begin.
uint64_t horizon(const CUstream_st& stream);
// When all work of a device is done.
uint64_t device_done(int device);

// A call that is unsafe while others capture (allocation, synchronisation) breaks those captures: true if there are any.
bool breaks_captures();
// Is this the legacy stream of a device on which a blocking stream captures? It would wait for that stream, which a GPU
// refuses: whatever is given to it, or asked of it, breaks that capture.
bool waits_for_capture(const CUstream_st& stream, bool breaks = true);

// Give work to the stream: done at once (with the lock released) while virtual time goes on, or made a node of the graph.
// Inside `Effects::off` copies and fills of this thread are recorded only.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, uint64_t cost, std::function<void()> work,
                    std::string label);
bool effects();
bool count_expected(long long* count);
void remember_stream(cudaStream_t stream);

#define STREAM(name, handle)                           \
  cudaStream_t name = ::sim::stream_of(handle);        \
  if (!name) FAIL(cudaErrorInvalidResourceHandle)

}  // namespace sim
