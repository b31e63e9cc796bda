// Errors of the made-up runtime: who checks a launch by its last error finds none that the table has told already.
#include <third_device/driver.h>

#include "beta_runtime.h"

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                             \
  if (!(condition)) {                                                \
    std::printf("failed: %s: %s\n", #condition, d.error_text());     \
    std::exit(1);                                                    \
  }

static td_status fail(void*) { return TD_FAILED; }

int main() {
  const td_driver& d = *third_device_driver();
  td_stream stream = nullptr;
  td_event event = nullptr;
  CHECK(d.stream_create(0, 0, &stream) == TD_OK && d.event_create(0, 0, &event) == TD_OK);
  beta::late = true;
  CHECK(d.stream_query(stream) == TD_NOT_READY && betaGetLastError() == betaSuccess);
  CHECK(d.event_query(event) == TD_NOT_READY && betaGetLastError() == betaSuccess);
  beta::late = false;
  CHECK(d.stream_query(stream) == TD_OK && d.event_query(event) == TD_OK);
  // a function that failed is told once, to who waits for its stream or its device, and to nobody else
  td_stream beside = nullptr, away = nullptr;
  CHECK(d.stream_create(0, 0, &beside) == TD_OK && d.stream_create(1, 0, &away) == TD_OK);
  CHECK(d.stream_call(stream, fail, nullptr) == TD_OK && d.stream_query(beside) == TD_OK && d.device_synchronize(1) == TD_OK);
  CHECK(d.stream_synchronize(stream) == TD_FAILED && d.stream_query(stream) == TD_OK && d.device_synchronize(0) == TD_OK);
  CHECK(d.stream_call(away, fail, nullptr) == TD_OK && d.device_synchronize(0) == TD_OK);
  CHECK(d.device_synchronize(1) == TD_FAILED && d.stream_synchronize(away) == TD_OK);
  CHECK(d.stream_call(away, fail, nullptr) == TD_OK && d.stream_destroy(away) == TD_OK && d.device_synchronize(1) == TD_OK);
  CHECK(d.stream_destroy(beside) == TD_OK);
  void* address = nullptr;
  CHECK(d.memory_alloc(7, 8, &address) == TD_INVALID && betaGetLastError() == betaSuccess);
  CHECK(d.event_destroy(event) == TD_OK && d.stream_destroy(stream) == TD_OK);
  beta::devices = 0;
  int count = 1;
  CHECK(d.device_count(&count) == TD_OK && count == 0 && betaGetLastError() == betaSuccess);
}
