#include "random.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "device_api.h"

namespace shadow {
namespace {

uint64_t mix(uint64_t seed, uint64_t offset) {  // splitmix64
  uint64_t z = seed * 0x9E3779B97F4A7C15u + offset + 0x632BE59BD9B4E019u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) >> 1;
}
uint64_t mix(const Philox& state) { return mix(state.seed, state.offset); }

thread_local Philox innermost;

}  // namespace

at::Generator generator_of(const Philox& state) { return at::detail::createCPUGenerator(mix(state)); }

std::function<Philox()> state_of(c10::Device device, const std::optional<at::Generator>& given, bool capturing) {
  at::Generator generator = given && given->defined() ? *given : at::globalContext().defaultGenerator(device);
  std::lock_guard<std::mutex> lock(generator.mutex());
  if (capturing) {
    auto state = at::check_generator<at::CUDAGeneratorImpl>(generator)->philox_cuda_state(0);
    const int64_t *seed = state.seed_.ptr, *offset = state.offset_.ptr;
    uint64_t within = state.offset_intragraph_;
    return [=] { return Philox{uint64_t(*seed), uint64_t(*offset) + within}; };
  }
  Philox value{generator.current_seed(), generator.get_offset()};
  return [=] { return value; };
}

Seeded::Seeded(const Philox& state) : generator_(at::detail::getDefaultCPUGenerator()), outer_(innermost) {
  innermost = state;
  std::lock_guard<std::mutex> lock(generator_.mutex());
  saved_ = generator_.get_state();
  generator_.set_current_seed(mix(state));
}
Seeded::~Seeded() {
  innermost = outer_;
  std::lock_guard<std::mutex> lock(generator_.mutex());
  generator_.set_state(saved_);
}

Philox Seeded::state() { return innermost; }

}  // namespace shadow
