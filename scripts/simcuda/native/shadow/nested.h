// Sums and products of a nested and a plain tensor, which only the device has.
#pragma once
#include <ATen/core/stack.h>

#include <string>

namespace shadow {

// Replaces the arguments of aten::add or aten::mul (and in place) by the result, part by part; false, with the stack as it
// was, for other operators and other arguments.
bool nested_with_plain(const std::string& name, torch::jit::Stack* stack);

}  // namespace shadow
