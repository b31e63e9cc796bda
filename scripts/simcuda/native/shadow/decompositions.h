// Operators that only the device has, computed by operators that the CPU has.
#pragma once
#include <ATen/core/stack.h>

#include <string>

namespace shadow {

// Takes the arguments off the stack and puts the results on it, all on the CPU.
using Decomposition = void (*)(torch::jit::Stack&);

Decomposition decomposition(const std::string& name);

}  // namespace shadow
