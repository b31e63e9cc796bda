// Random operators: the CPU's generator, seeded from the state that the device's had before. The same seed and offset give
// the same numbers; they are not the numbers that the device would have drawn.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace shadow {

// The state of a generator of the device.
struct Philox {
  uint64_t seed = 0, offset = 0;
};

// A generator of the CPU for it.
at::Generator generator_of(const Philox& state);

// Reads seed and offset. While the device captures they lie in its memory and are read at each replay.
std::function<Philox()> state_of(c10::Device device, const std::optional<at::Generator>& given, bool capturing);

// Seeds the CPU's default generator for a while; its state is as before at the end.
class Seeded {
 public:
  explicit Seeded(const Philox& state);
  ~Seeded();
  static Philox state();  // that of the innermost one in this thread
  Seeded(const Seeded&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
  Philox outer_;
};

}  // namespace shadow
