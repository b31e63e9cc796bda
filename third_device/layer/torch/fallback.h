// Between the files of the layer: the CPU fallback for tensors of any layout.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace third_device {

// Runs an operator by the kernel that the CPU has under `cpu_key` and brings what it makes to the device. Raises
// NotImplementedError where the CPU has none, and where the fallback is switched off.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey cpu_key);

void sparse_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void sparse_compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace third_device
