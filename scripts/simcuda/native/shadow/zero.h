// Whole numbers divided by zero: the CPU refuses, the device computes something.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace shadow {

// Did the CPU's operator refuse because a divisor is zero?
bool is_for_zero(const c10::Error& error);

// Runs `compute` on `stack` with other divisors in the place of zeros, and puts there what the device leaves.
void divided(torch::jit::Stack* stack, const std::function<void(torch::jit::Stack*)>& compute);

}  // namespace shadow
