// Between the files of the layer: the CPU fallback for tensors of any layout, and how operators are registered.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <third_device/backend.h>

#include <algorithm>
#include <utility>

namespace third_device {

// Runs an operator by the kernel that the CPU has under `cpu_key` and brings what it makes to the device. Raises
// NotImplementedError where the CPU has none, and where the fallback is switched off.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey cpu_key);

void sparse_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void sparse_compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Registers the layer's operators of ATen at a dispatch key, but for those that the backend has a kernel of there.
class LayerOperators {
 public:
  LayerOperators(torch::Library& library, c10::DispatchKey key) : library_(library), key_(key), own_(own_operators()) {}

  template <typename Kernel>
  void impl(const char* name, Kernel&& kernel) {
    if (!has_own(key_, name)) library_.impl(name, std::forward<Kernel>(kernel));
  }
  bool has_own(c10::DispatchKey key, const char* name) const {
    return std::any_of(own_.begin(), own_.end(), [&](const auto& one) { return one.first == key && one.second == name; });
  }

 private:
  torch::Library& library_;
  c10::DispatchKey key_;
  std::vector<std::pair<c10::DispatchKey, std::string>> own_;
};

}  // namespace third_device
