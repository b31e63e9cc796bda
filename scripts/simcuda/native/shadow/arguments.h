// The arguments of an operator, taken off its stack.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

namespace shadow {

struct Arguments {
  torch::jit::Stack values;
  explicit Arguments(torch::jit::Stack& stack) : values(std::move(stack)) { stack.clear(); }
  at::Tensor tensor(size_t i) const { return values[i].isNone() ? at::Tensor() : values[i].toTensor(); }
  std::optional<at::Tensor> maybe(size_t i) const {
    at::Tensor t = tensor(i);
    return t.defined() ? std::optional<at::Tensor>(t) : std::nullopt;
  }
  std::vector<int64_t> ints(size_t i) const { return values[i].toIntVector(); }
};

}  // namespace shadow
