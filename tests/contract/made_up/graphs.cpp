// Graphs over the made-up runtime: what a captured call points to lives as long as the graph, whichever it was of.
#include <third_device/driver.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                             \
  if (!(condition)) {                                                \
    std::printf("failed: %s: %s\n", #condition, d.error_text());     \
    std::exit(1);                                                    \
  }

static td_status count_up(void* counter) { return ++*static_cast<int*>(counter) > 0 ? TD_OK : TD_FAILED; }

int main() {
  const td_driver& d = *third_device_driver();
  td_stream stream = nullptr, other = nullptr;
  CHECK(d.stream_create(0, 0, &stream) == TD_OK && d.stream_create(0, 0, &other) == TD_OK);
  int runs = 0, captures = 0;
  td_graph graph = nullptr;
  CHECK(d.graph_end(stream, &graph) == TD_INVALID && graph == nullptr);
  CHECK(d.graph_captures(stream, &captures) == TD_OK && !captures);
  CHECK(d.graph_begin(stream) == TD_OK && d.graph_captures(stream, &captures) == TD_OK && captures);
  CHECK(d.stream_call(stream, count_up, &runs) == TD_OK && runs == 0);
  CHECK(d.stream_call(other, count_up, &runs) == TD_OK && runs == 1);
  CHECK(d.graph_end(stream, &graph) == TD_OK && d.stream_call(stream, count_up, &runs) == TD_OK && runs == 2);
  for (int round = 1; round <= 3; ++round) {
    CHECK(d.graph_launch(graph, other) == TD_OK && runs == 2 + round);
  }
  runs = -1;
  CHECK(d.graph_launch(graph, other) == TD_OK && d.stream_query(stream) == TD_OK && d.stream_query(other) == TD_FAILED);
  CHECK(d.graph_destroy(graph) == TD_OK && d.stream_destroy(stream) == TD_OK && d.stream_destroy(other) == TD_OK);
}
