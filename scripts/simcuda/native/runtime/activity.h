// What a profiler hears of the runtime: the calls of the host, and the work they enqueue.
#pragma once
#include "../interface.h"
#include "streams.h"

namespace sim {

// A call of the runtime, from here to the end of the block. One that another one makes is not told. Stands before the lock,
// so that the listener's end of it runs without.
class Call {
 public:
  explicit Call(const char* function);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

 private:
  const char* function_;  // null: nobody listens, or an outer call is told
  unsigned long long begin_;
};

// Work that has been given to the stream now, to begin at `begin` and take `cost`. A captured one is none yet.
void tell(simcuda_work work, const CUstream_st& stream, uint64_t begin, uint64_t cost);

}  // namespace sim

#define CALL ::sim::Call call_(__func__)
