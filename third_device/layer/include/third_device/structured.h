// Runs one of ATen's structured operators on the device: its shape function and its front half as they are, the inner
// loop through the DispatchStub that the backend registered. The output exists already (the operator is an .out one).
#pragma once

#include <third_device/compat.h>

#include <ATen/core/Tensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <optional>

namespace third_device {

template <typename Operator>
class Structured final : public Operator {
 public:
  explicit Structured(at::Tensor& out) : out_(out) {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options
                          TD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    if (!strides.empty() && out_.strides() != strides) stand_in_ = at::empty_strided(sizes, strides, options);
    tell(index, sizes, strides, options TD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options
                              TD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    tell(index, sizes, strides, options TD_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t) override { return stand_in_.has_value() ? *stand_in_ : out_; }

  const at::Tensor& target() { return maybe_get_output(0); }
  at::Tensor& finish() {
    if (stand_in_.has_value()) out_.copy_(*stand_in_);
    return out_;
  }

 private:
  void prepare(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    TORCH_CHECK(options.dtype() == out_.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out_.dtype(), " instead");
    if (at::native::resize_output(out_, sizes) && !strides.empty()) out_.as_strided_(sizes, strides);
  }
  // Operators on a TensorIterator learn of the output through the base class; the others have an abstract one.
  void tell(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options
            TD_NAMES_PARAMETER) {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Operator>) {
      at::TensorIteratorBase::set_output_raw_strided(index, sizes, strides, options TD_NAMES_ARGUMENT);
    }
  }

  at::Tensor& out_;
  std::optional<at::Tensor> stand_in_;
};

}  // namespace third_device
