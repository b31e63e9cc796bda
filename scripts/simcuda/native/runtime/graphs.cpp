// Captures and graphs. A graph is a list of nodes in the order they were recorded, which respects what they need;
// a launch runs their work again.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unordered_map>

#include "activity.h"
#include "device.h"
#include "entries.h"

struct CUgraphExec_st {
  struct Step {
    cudaGraphNodeType type;
    std::function<void()> work;
    std::string label;
    std::shared_ptr<void> memory;
  };
  std::shared_ptr<std::vector<Step>> steps;
  size_t nodes = 0;  // those of the program: what a GPU's graph would have
  uint64_t cost = 0;
};

namespace {

using namespace sim;

std::unordered_set<cudaGraph_t>& graphs() {
  static auto* all = new std::unordered_set<cudaGraph_t>;
  return *all;
}
std::unordered_set<cudaGraphExec_t>& programs() {
  static auto* all = new std::unordered_set<cudaGraphExec_t>;
  return *all;
}
#define GRAPH(graph) \
  if (!graphs().count(graph)) FAIL(cudaErrorInvalidValue)

// Is every stream of the capture joined to its origin again?
bool joined(const Capture& capture) {
  std::unordered_set<const CUgraphNode_st*> reached;
  std::vector<CUgraphNode_st*> todo = capture.origin->tail;
  while (!todo.empty()) {
    CUgraphNode_st* node = todo.back();
    todo.pop_back();
    if (reached.insert(node).second) todo.insert(todo.end(), node->needs.begin(), node->needs.end());
  }
  for (cudaStream_t stream : capture.streams)
    if (stream != capture.origin && stream->capture == &capture)
      for (CUgraphNode_st* node : stream->tail)
        if (!reached.count(node)) return false;
  return true;
}

void leave(Capture* capture) {
  for (cudaStream_t stream : capture->streams)
    if (stream->capture == capture) {
      stream->capture = nullptr;
      stream->tail.clear();
    }
}

void compile(cudaGraphExec_t program, const CUgraph_st& graph) {
  program->steps = std::make_shared<std::vector<CUgraphExec_st::Step>>();
  program->cost = 3000;
  program->nodes = 0;
  for (auto& node : graph.nodes) {
    program->nodes += !node->shadow;
    program->steps->push_back({node->type, node->work, node->label, node->memory});
    program->cost += node->cost;
  }
}

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (!stream.capture) return cudaStreamCaptureStatusNone;
  return stream.capture->broken ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

}  // namespace

// ---- capture ----
SIM_API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  ENTER;
  STREAM(stream, handle);
  if (stream->is_null) FAIL(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) FAIL(cudaErrorIllegalState);
  captures().push_back(std::make_unique<Capture>(Capture{
      next_id(), mode, stream, std::this_thread::get_id(), {stream}, std::make_unique<CUgraph_st>(), false}));
  stream->capture = captures().back().get();
  stream->tail.clear();
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* out) {
  ENTER;
  *out = nullptr;
  STREAM(stream, handle);
  Capture* capture = stream->capture;
  if (!capture) FAIL(cudaErrorIllegalState);
  if (capture->origin != stream) {
    capture->broken = true;
    FAIL(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    FAIL(cudaErrorStreamCaptureWrongThread);
  bool whole = joined(*capture), broken = capture->broken;
  leave(capture);
  auto graph = std::move(capture->graph);
  captures().erase(std::find_if(captures().begin(), captures().end(), [&](auto& c) { return c.get() == capture; }));
  if (broken) FAIL(cudaErrorStreamCaptureInvalidated);
  if (!whole) FAIL(cudaErrorStreamCaptureUnjoined);
  graphs().insert(graph.get());
  *out = graph.release();
  return cudaSuccess;
}
SIM_API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* out) {
  CALL;
  ENTER;
  STREAM(stream, handle);
  if (waits_for_capture(*stream, false)) FAIL(cudaErrorStreamCaptureImplicit);  // a question that breaks nothing
  *out = status_of(*stream);
  return cudaSuccess;
}
#undef cudaStreamGetCaptureInfo
SIM_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                                unsigned long long* id, cudaGraph_t* graph,
                                                const cudaGraphNode_t** needs, size_t* count) {
  ENTER;
  STREAM(stream, handle);
  *status = status_of(*stream);
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  if (id) *id = stream->capture->id;
  if (graph) *graph = stream->capture->graph.get();
  if (needs) *needs = stream->tail.data();
  if (count) *count = stream->tail.size();
  return cudaSuccess;
}
#if CUDART_VERSION < 12000
SIM_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status, unsigned long long* id) {
  return cudaStreamGetCaptureInfo_v2(handle, status, id, nullptr, nullptr, nullptr);
}
#endif
SIM_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle, cudaGraphNode_t* nodes, size_t count,
                                                        unsigned flags) {
  ENTER;
  STREAM(stream, handle);
  if (!stream->capture) FAIL(cudaErrorIllegalState);
  if (flags == cudaStreamSetCaptureDependencies) stream->tail.clear();
  stream->tail.insert(stream->tail.end(), nodes, nodes + count);
  return cudaSuccess;
}

// ---- graphs ----
SIM_API cudaError_t cudaGraphCreate(cudaGraph_t* out, unsigned) {
  ENTER;
  graphs().insert(*out = new CUgraph_st);
  return cudaSuccess;
}
SIM_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  ENTER;
  if (!graphs().erase(graph)) FAIL(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}
SIM_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  ENTER;
  GRAPH(graph);
  if (nodes)
    for (size_t i = 0; i < *count; i++) nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
  if (!nodes || *count > graph->nodes.size()) *count = graph->nodes.size();
  return cudaSuccess;
}
SIM_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return cudaSuccess;
}
static cudaError_t instantiate(cudaGraphExec_t* out, cudaGraph_t graph) {
  ENTER;
  GRAPH(graph);
  auto* program = new CUgraphExec_st;
  compile(program, *graph);
  programs().insert(*out = program);
  return cudaSuccess;
}
SIM_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return instantiate(out, graph);
}
// An update must leave the number and the types of the nodes as they are.
static cudaError_t update(cudaGraphExec_t program, cudaGraph_t graph, cudaGraphExecUpdateResult* result, cudaGraphNode_t* wrong) {
  ENTER;
  GRAPH(graph);
  if (!programs().count(program)) FAIL(cudaErrorInvalidValue);
  *wrong = nullptr;
  bool same = program->steps->size() == graph->nodes.size();
  *result = same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  for (size_t i = 0; same && i < graph->nodes.size(); i++)
    if ((*program->steps)[i].type != graph->nodes[i]->type) {
      same = false;
      *result = cudaGraphExecUpdateErrorNodeTypeChanged;
      *wrong = graph->nodes[i].get();
    }
  if (!same) FAIL(cudaErrorGraphExecUpdateFailure);
  compile(program, *graph);
  return cudaSuccess;
}
#if CUDART_VERSION >= 12000
SIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, unsigned long long) {
  return instantiate(out, graph);
}
SIM_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t program, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info) {
  memset(info, 0, sizeof *info);
  return update(program, graph, &info->result, &info->errorNode);
}
#else
SIM_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph, cudaGraphNode_t* wrong, char* log, size_t room) {
  if (wrong) *wrong = nullptr;
  if (log && room) *log = 0;
  return instantiate(out, graph);
}
SIM_API cudaError_t cudaGraphExecUpdate(cudaGraphExec_t program, cudaGraph_t graph, cudaGraphNode_t* wrong,
                                        cudaGraphExecUpdateResult* result) {
  return update(program, graph, result, wrong);
}
#endif
SIM_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t program) {
  ENTER;
  if (!programs().erase(program)) FAIL(cudaErrorInvalidValue);
  delete program;
  return cudaSuccess;
}
SIM_API cudaError_t cudaGraphLaunch(cudaGraphExec_t program, cudaStream_t handle) {
  CALL;
  ENTER;
  STREAM(stream, handle);
  if (!programs().count(program)) FAIL(cudaErrorInvalidValue);
  note_graph(*stream, program->nodes);
  return enqueue(stream, cudaGraphNodeTypeGraph, program->cost, [steps = program->steps] {
    for (auto& step : *steps)
      if (step.work) step.work();
  }, "graph");
}
SIM_API cudaError_t cudaGraphUpload(cudaGraphExec_t program, cudaStream_t handle) {
  ENTER;
  STREAM(stream, handle);
  return programs().count(program) ? cudaSuccess : fail(cudaErrorInvalidValue, __func__);
}
SIM_API cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned) {
  ENTER;
  GRAPH(graph);
  FILE* file = fopen(path, "w");
  if (!file) FAIL(cudaErrorOperatingSystem);
  std::unordered_map<const CUgraphNode_st*, size_t> number;
  fprintf(file, "digraph dot {\n");
  for (size_t i = 0; i < graph->nodes.size(); i++) {
    number[graph->nodes[i].get()] = i;
    fprintf(file, "\"node_%zu\" [label=\"%s\"];\n", i, graph->nodes[i]->label.c_str());
    for (CUgraphNode_st* before : graph->nodes[i]->needs)
      fprintf(file, "\"node_%zu\" -> \"node_%zu\";\n", number[before], i);
  }
  fprintf(file, "}\n");
  fclose(file);
  return cudaSuccess;
}
