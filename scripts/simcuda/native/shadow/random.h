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

// Reads seed and offset. While the device captures they lie in its memory and are read at each replay.
std::function<uint64_t()> state_of(c10::Device device, const std::optional<at::Generator>& given, bool capturing);

// Seeds the CPU's default generator for a while; its state is as before at the end.
class Seeded {
 public:
  explicit Seeded(uint64_t seed);
  ~Seeded();
  Seeded(const Seeded&) = delete;

 private:
  at::Generator generator_;
  at::Tensor saved_;
};

}  // namespace shadow
