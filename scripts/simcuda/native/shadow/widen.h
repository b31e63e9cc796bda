// Types that a CPU kernel lacks (half, bfloat16, …): the same operator on wider numbers, the results rounded.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace shadow {

// True if `error` says that the CPU has no kernel for a type, and the wider call worked; results are then on the stack.
bool call_widened(const c10::OperatorHandle& op, torch::jit::Stack* stack, const c10::Error& error);

}  // namespace shadow
