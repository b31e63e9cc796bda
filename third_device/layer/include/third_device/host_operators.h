// Operators that PyTorch wants of every device and the CPU has no kernel of, or none that takes our tensors. The layer
// computes them on the host, or of others. Each has its name in ATen: what operators.yaml generates calls it for operands
// that the backend's own kernel does not take.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

#include <third_device/runtime.h>

namespace third_device::host {

// Whether the layer computes the operator of that name, and not a fallback of the backend's own (device.h).
TD_API bool computes(const char* op);

TD_API at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking);
TD_API at::Scalar _local_scalar_dense(const at::Tensor& self);
TD_API at::Tensor& zero_(at::Tensor& self);
TD_API at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                           const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                           at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                                           at::IntArrayRef output_padding, int64_t groups);
TD_API std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask);
TD_API std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(const at::Tensor& input_gates,
                                                                            const at::Tensor& hidden_gates,
                                                                            const at::Tensor& cx,
                                                                            const std::optional<at::Tensor>& input_bias,
                                                                            const std::optional<at::Tensor>& hidden_bias);
TD_API std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(const at::Tensor& input_gates,
                                                               const at::Tensor& hidden_gates, const at::Tensor& hx,
                                                               const std::optional<at::Tensor>& input_bias,
                                                               const std::optional<at::Tensor>& hidden_bias);
TD_API std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train);

}  // namespace third_device::host
