#include "activity.h"

#include <atomic>

#include "device.h"

namespace sim {
namespace {

std::atomic<const simcuda_listener*> listener{nullptr};
std::atomic<unsigned> calls{0};
thread_local unsigned correlation = 0;  // of the call that this thread is in
thread_local unsigned depth = 0;

}  // namespace

Call::Call(const char* function) : function_(nullptr), begin_(0) {
  const simcuda_listener* heard = listener.load();
  if (depth++ || !heard) return;
  function_ = function;
  correlation = ++calls;
  begin_ = heard->time();
}

Call::~Call() {
  depth--;
  if (!function_) return;
  if (const simcuda_listener* heard = listener.load()) heard->call(function_, correlation, begin_, heard->time());
  correlation = 0;
}

void tell(simcuda_work work, const CUstream_st& stream, uint64_t begin, uint64_t cost) {
  const simcuda_listener* heard = listener.load();
  if (!heard || stream.capture) return;
  work.correlation = correlation ? correlation : ++calls;
  work.device = physical_of(stream.device);
  work.stream = stream.is_null ? 7 : unsigned(stream.id);  // 7 is what CUPTI calls it
  work.begin = begin, work.end = begin + cost;
  heard->work(&work);
}

}  // namespace sim

SIM_API void simcuda_listen(const simcuda_listener* who) { sim::listener = who; }
