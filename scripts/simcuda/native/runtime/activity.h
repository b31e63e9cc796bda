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

// Work of this kind, with the sides that it is between or, of a wait, what it waits for.
inline simcuda_work work_of(char kind, char from = 0, char to = 0) {
  simcuda_work made{};
  made.kind = kind, made.from = from, made.to = to;
  return made;
}

// Work that has been given to the stream now, to begin at `begin` and take `cost`. A captured one is none yet.
void tell(simcuda_work work, const CUstream_st& stream, uint64_t begin, uint64_t cost);

}  // namespace sim

#define CALL ::sim::Call call_(__func__)
