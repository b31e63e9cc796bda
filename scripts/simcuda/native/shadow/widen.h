// Operators of the CPU that do not know a narrow type, or are very slow in it, compute in the wider one.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

namespace shadow {

// Did the CPU's operator refuse because of its type?
bool is_for_type(const c10::Error& error);

// Did it because it does not take truth values, which it would take as numbers?
bool is_for_bools(const c10::Error& error);

// Products and losses: the CPU has plain loops for products in half precision, and the device adds up in single precision.
bool adds_up(const std::string& name);

// Sums, with one part multiplied first: by a number, and to one, that half precision may not have. Only of one type.
bool is_sum(const std::string& name, const torch::jit::Stack& stack);

// Replaces narrow tensors of `stack` by wide ones, runs `compute` on it, and brings what it wrote and returns back. False,
// with the stack as it was, when no tensor of it is narrow. With `bools` it is truth values that become numbers.
bool widened(const c10::OperatorHandle& op, torch::jit::Stack* stack,
             const std::function<void(torch::jit::Stack*)>& compute, bool bools = false);

}  // namespace shadow
