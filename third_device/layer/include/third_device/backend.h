// What the translation units of the PyTorch half of the layer share, and what a backend's kernels may use.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <third_device/allocators.h>
#include <third_device/graphs.h>
#include <third_device/runtime.h>

namespace third_device {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

TD_API c10::Allocator* device_allocator();
TD_API c10::Allocator* pinned_allocator();
// The generator of `device` that is used where none is given; the current device's for -1.
TD_API const at::Generator& default_generator(c10::DeviceIndex device);

// A place in a generator's stream of random numbers: the key and the counter of Philox, say.
struct RandomPlace {
  uint64_t seed;
  uint64_t offset;
};
// The place that a kernel makes its numbers from; the generator goes on behind `count` of them, rounded up to 4, so that
// nobody else gets them. Raises unless the generator is one of ours.
TD_API RandomPlace reserve_random(const at::Generator& generator, uint64_t count);

// The boxed kernel of every operator the backend has no kernel for: runs it on the CPU. Kernels call it themselves for
// operands they do not support: at::native::call_fallback_fn<&third_device::cpu_fallback, ATEN_OP(x)>::call(...).
TD_API void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// Registers the fallback also for operators that ATen composes of others for any device but the CPU has a kernel of its
// own for, on quantized and sparse tensors: composed, they fail there or mean something else; and for those that a
// fallback of the backend takes (device.h). Called when the backend's module is loaded, once all kernels are registered;
// more calls change nothing.
TD_API void complete_fallbacks();
// The boxed kernel of operators that must not run on the CPU: raises NotImplementedError.
TD_API void refuse(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// False: operators without a kernel raise NotImplementedError. Returns the former value.
TD_API bool set_fallback_enabled(bool enabled);

// What becomes of an operator that waits for the device: nothing (0), a warning (1), an error (2).
TD_API void set_sync_debug_mode(int mode) noexcept;
TD_API int sync_debug_mode() noexcept;
// Warns or raises as the mode says. A kernel that waits calls it before it enqueues what it waits for.
TD_API void before_waiting();

// What generated registrations ask before they call a kernel that is limited to some operands.
TD_API bool is_plain(const at::Tensor& tensor, bool contiguous);
inline bool is_plain(const std::optional<at::Tensor>& tensor, bool contiguous) {
  return !tensor.has_value() || !tensor->defined() || is_plain(*tensor, contiguous);
}
// The same of each of a list, all of one of `dtypes` (of any where there are none).
template <typename List>
bool are_plain(const List& list, bool contiguous, std::initializer_list<at::ScalarType> dtypes) {
  for (const auto& each : list) {
    const std::optional<at::Tensor> tensor = each;
    if (!is_plain(tensor, contiguous)) return false;
    if (dtypes.size() == 0 || !tensor.has_value() || !tensor->defined()) continue;
    if (std::find(dtypes.begin(), dtypes.end(), tensor->scalar_type()) == dtypes.end()) return false;
  }
  return true;
}
// Counts up the versions of tensors that an operator writes to, once it is done: autograd refuses what it saved before.
class CountedWrites {
 public:
  explicit CountedWrites(std::vector<at::Tensor> written) : written_(std::move(written)) {}
  CountedWrites(const CountedWrites&) = delete;
  ~CountedWrites() {
    for (const at::Tensor& each : written_) {
      if (each.defined() && !each.is_inference()) each.unsafeGetTensorImpl()->bump_version();
    }
  }

 private:
  std::vector<at::Tensor> written_;
};
// Names of torch.<device> and the operators that they call, from `python:` in operators.yaml. Generated; none by default.
TD_API std::vector<std::pair<std::string, std::string>> python_functions();
// Operators of ATen that operators.yaml has a kernel for, and its dispatch key: the layer registers none of its own there.
// PyTorch would take the later one of two, and warn. Generated; none by default.
TD_API std::vector<std::pair<c10::DispatchKey, std::string>> own_operators();
// The devices that an operator's operands are on, tensors, such as may be missing, and lists of either: of ours alone, or of
// any kind (of_any).
class OperandDevices {
 public:
  template <typename... Operands>
  explicit OperandDevices(const Operands&... operands) {
    (add(operands), ...);
  }
  template <typename... Operands>
  static OperandDevices of_any(const Operands&... operands) {
    OperandDevices made;
    made.any_ = true;
    (made.add(operands), ...);
    return made;
  }
  bool are_one() const { return !other_.has_value(); }
  // None where no operand counts.
  std::optional<c10::Device> first_or_none() const { return first_; }
  // Of two that differ.
  c10::Device first() const { return first_.value(); }
  c10::Device other() const { return other_.value(); }

 private:
  void add(const at::Tensor& tensor) {
    if (!tensor.defined() || !(any_ || tensor.is_privateuseone())) return;
    if (!first_.has_value()) first_ = tensor.device();
    if (tensor.device() != *first_) other_ = tensor.device();
  }
  void add(const std::optional<at::Tensor>& tensor) {
    if (tensor.has_value()) add(*tensor);
  }
  template <typename List>
  void add(const List& list) {
    for (const auto& each : list) {
      const std::optional<at::Tensor> tensor = each;
      add(tensor);
    }
  }

  bool any_ = false;
  std::optional<c10::Device> first_, other_;
};
// Raises unless the operands are on one device.
TD_API void check_one_device(const char* op, const OperandDevices& devices);
// Raises where a copy on a device would read memory that it writes to, or write to an element more than once.
TD_API void check_overlap(const at::Tensor& source, const at::Tensor& target);

// Raises where this thread's work on `device` is captured as a graph, and ends the capture: the end repeats the reason.
// For what a replay could not do again.
TD_API void refuse_in_capture(int device, const std::string& reason);
// Offers graphs to torch.accelerator.Graph, where the driver has them and this PyTorch has that (2.13). More calls change
// nothing.
TD_API void offer_graphs();

// Whether torch.profiler shows what the device did: the driver records it, and this PyTorch has Kineto.
TD_API bool records_work() noexcept;

// Enqueues a callable on the current stream of `device`. It must not free or allocate device memory. An exception in it
// is reported at the next synchronisation of that stream. Captured as a graph's it is called at each replay.
template <typename Work>
void enqueue(int device, Work work) {
  if (is_capturing(device)) {
    auto kept = std::make_shared<Work>(std::move(work));
    const td_callback again = [](void* argument) -> td_status {
      (*static_cast<Work*>(argument))();
      return TD_OK;
    };
    keep_for_graph(kept);
    check(driver().stream_call(native_current_stream(device), again, kept.get()), "capturing work");
    return;
  }
  auto held = std::make_unique<Work>(std::move(work));
  td_callback run = [](void* argument) -> td_status {
    std::unique_ptr<Work> owned(static_cast<Work*>(argument));
    (*owned)();
    return TD_OK;
  };
  check(driver().stream_call(native_current_stream(device), run, held.get()), "enqueuing work");
  held.release();
}

}  // namespace third_device
