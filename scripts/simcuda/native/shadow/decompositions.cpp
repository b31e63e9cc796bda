#include "decompositions.h"

#include <ATen/ATen.h>

#include <unordered_map>

#include "arguments.h"
#include "attention.h"
#include "recurrent.h"
#include "semi_structured.h"

namespace shadow {
namespace {

using at::Tensor;
using torch::jit::Stack;

void cudnn_convolution(Stack& stack) {  // self, weight, padding, stride, dilation, groups, benchmark, deterministic, tf32
  Arguments a(stack);
  stack.emplace_back(at::convolution(a.tensor(0), a.tensor(1), {}, a.ints(3), a.ints(2), a.ints(4), false,
                                     std::vector<int64_t>(a.ints(2).size(), 0), a.values[5].toInt()));
}
void cudnn_convolution_transpose(Stack& stack) {  // self, weight, padding, output_padding, stride, dilation, groups, ...
  Arguments a(stack);
  stack.emplace_back(at::convolution(a.tensor(0), a.tensor(1), {}, a.ints(4), a.ints(2), a.ints(5), true, a.ints(3),
                                     a.values[6].toInt()));
}
void cudnn_convolution_relu(Stack& stack) {  // self, weight, bias, stride, padding, dilation, groups
  Arguments a(stack);
  stack.emplace_back(at::relu(at::convolution(a.tensor(0), a.tensor(1), a.maybe(2), a.ints(3), a.ints(4), a.ints(5), false,
                                              std::vector<int64_t>(a.ints(4).size(), 0), a.values[6].toInt())));
}
void cudnn_convolution_add_relu(Stack& stack) {  // self, weight, z, alpha, bias, stride, padding, dilation, groups
  Arguments a(stack);
  auto sum = at::convolution(a.tensor(0), a.tensor(1), a.maybe(4), a.ints(5), a.ints(6), a.ints(7), false,
                             std::vector<int64_t>(a.ints(6).size(), 0), a.values[8].toInt());
  sum.add_(a.tensor(2), a.values[3].isNone() ? at::Scalar(1) : a.values[3].toScalar());
  stack.emplace_back(at::relu(sum));
}
void cudnn_batch_norm(Stack& stack) {  // input, weight, bias, running_mean, running_var, training, factor, epsilon
  Arguments a(stack);
  auto [out, mean, invstd] = at::native_batch_norm(a.tensor(0), a.maybe(1), a.maybe(2), a.maybe(3), a.maybe(4),
                                                   a.values[5].toBool(), a.values[6].toDouble(), a.values[7].toDouble());
  for (const Tensor& t : {out, mean, invstd}) stack.emplace_back(t);
  stack.emplace_back(Tensor());  // the reserve is the device's own
}
void cudnn_batch_norm_backward(Stack& stack) {
  // input, grad_output, weight, running_mean, running_var, save_mean, save_var, epsilon, reserve
  Arguments a(stack);
  auto [dx, dw, db] = at::native_batch_norm_backward(a.tensor(1), a.tensor(0), a.maybe(2), a.maybe(3), a.maybe(4), a.maybe(5),
                                                     a.maybe(6), true, a.values[7].toDouble(), {true, true, true});
  for (const Tensor& t : {dx, dw, db}) stack.emplace_back(t);
}
void miopen_convolution(Stack& stack) {  // self, weight, bias, padding, stride, dilation, groups, benchmark, deterministic
  Arguments a(stack);
  stack.emplace_back(at::convolution(a.tensor(0), a.tensor(1), a.maybe(2), a.ints(4), a.ints(3), a.ints(5), false,
                                     std::vector<int64_t>(a.ints(3).size(), 0), a.values[6].toInt()));
}
void miopen_convolution_transpose(Stack& stack) {  // self, weight, bias, padding, output_padding, stride, dilation, groups, ...
  Arguments a(stack);
  stack.emplace_back(at::convolution(a.tensor(0), a.tensor(1), a.maybe(2), a.ints(5), a.ints(3), a.ints(6), true, a.ints(4),
                                     a.values[7].toInt()));
}
void miopen_batch_norm(Stack& stack) {  // as cuDNN's, without its reserve
  cudnn_batch_norm(stack);
  stack.pop_back();
}
void cudnn_grid_sampler(Stack& stack) {
  Arguments a(stack);
  stack.emplace_back(at::grid_sampler_2d(a.tensor(0), a.tensor(1), 0, 0, true));
}
void cudnn_grid_sampler_backward(Stack& stack) {  // self, grid, grad_output
  Arguments a(stack);
  auto [dx, dg] = at::grid_sampler_2d_backward(a.tensor(2), a.tensor(0), a.tensor(1), 0, 0, true, {true, true});
  stack.emplace_back(dx), stack.emplace_back(dg);
}
void cudnn_affine_grid_generator(Stack& stack) {  // theta, N, C, H, W
  Arguments a(stack);
  stack.emplace_back(at::affine_grid_generator(
      a.tensor(0), {a.values[1].toInt(), a.values[2].toInt(), a.values[3].toInt(), a.values[4].toInt()}, true));
}

// The parts of synchronised batch normalisation. Statistics are over all dimensions but the second.
Tensor over_channels(const Tensor& t, const Tensor& like) {
  std::vector<int64_t> shape(size_t(like.dim()), 1);
  shape[1] = like.size(1);
  return t.view(shape);
}
std::vector<int64_t> all_but_channels(const Tensor& t) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < t.dim(); i++)
    if (i != 1) dims.push_back(i);
  return dims;
}
void batch_norm_stats(Stack& stack) {  // input, eps
  Arguments a(stack);
  auto x = a.tensor(0).to(at::promoteTypes(a.tensor(0).scalar_type(), at::kFloat));
  auto dims = all_but_channels(x);
  stack.emplace_back(x.mean(dims)), stack.emplace_back((x.var(dims, false) + a.values[1].toDouble()).rsqrt());
}
void batch_norm_elemt(Stack& stack) {  // input, weight, bias, mean, invstd, eps
  Arguments a(stack);
  auto x = a.tensor(0);
  auto y = (x - over_channels(a.tensor(3), x)) * over_channels(a.tensor(4), x);
  if (a.maybe(1)) y = y * over_channels(a.tensor(1), x);
  if (a.maybe(2)) y = y + over_channels(a.tensor(2), x);
  stack.emplace_back(y.to(x.scalar_type()));
}
void gather_stats(const Tensor& mean, const Tensor& invstd, const Tensor& running_mean, const Tensor& running_var,
                  double momentum, double eps, const Tensor& counts, Stack* stack) {
  auto n = counts.to(mean.scalar_type()).unsqueeze(1);
  auto total = n.sum();
  auto all_mean = (mean * n).sum(0) / total;
  auto var = invstd.pow(-2) - eps;
  auto all_var = ((var + (mean - all_mean).pow(2)) * n).sum(0) / total;
  if (running_mean.defined()) Tensor(running_mean).mul_(1 - momentum).add_(all_mean.to(running_mean.scalar_type()), momentum);
  if (running_var.defined())
    Tensor(running_var).mul_(1 - momentum).add_((all_var * total / (total - 1)).to(running_var.scalar_type()), momentum);
  stack->emplace_back(all_mean), stack->emplace_back((all_var + eps).rsqrt());
}
void batch_norm_gather_stats(Stack& stack) {  // input, mean, invstd, running_mean, running_var, momentum, eps, count
  Arguments a(stack);
  auto counts = at::full({a.tensor(1).size(0)}, a.values[7].toInt(), a.tensor(1).options());
  gather_stats(a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4), a.values[5].toDouble(), a.values[6].toDouble(), counts, &stack);
}
void batch_norm_gather_stats_with_counts(Stack& stack) {
  Arguments a(stack);
  gather_stats(a.tensor(1), a.tensor(2), a.tensor(3), a.tensor(4), a.values[5].toDouble(), a.values[6].toDouble(), a.tensor(7), &stack);
}
void batch_norm_backward_reduce(Stack& stack) {  // grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g
  Arguments a(stack);
  auto g = a.tensor(0).to(a.tensor(2).scalar_type()), x = a.tensor(1).to(a.tensor(2).scalar_type());
  auto dims = all_but_channels(x);
  auto sum = g.sum(dims), sum_xmu = (g * (x - over_channels(a.tensor(2), x))).sum(dims);
  stack.emplace_back(sum), stack.emplace_back(sum_xmu);
  stack.emplace_back(a.values[6].toBool() ? sum_xmu * a.tensor(3) : Tensor());
  stack.emplace_back(a.values[7].toBool() ? sum : Tensor());
}
void batch_norm_backward_elemt(Stack& stack) {  // grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count
  Arguments a(stack);
  auto x = a.tensor(1);
  auto total = a.tensor(7).sum().to(a.tensor(2).scalar_type());
  auto invstd = over_channels(a.tensor(3), x), mean = over_channels(a.tensor(2), x);
  auto dx = a.tensor(0) - over_channels(a.tensor(5), x) / total -
            (x - mean) * invstd * invstd * (over_channels(a.tensor(6), x) / total);
  dx = dx * invstd;
  if (a.maybe(4)) dx = dx * over_channels(a.tensor(4), x);
  stack.emplace_back(dx.to(x.scalar_type()));
}

// The device draws in single precision at least, and never a zero: the smallest is half an epsilon.
void exponential(Stack& stack) {  // self, lambda, generator
  Arguments a(stack);
  const bool twice = a.tensor(0).scalar_type() == at::kDouble;
  const double lambda = a.values[1].toDouble();
  const double half = (twice ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon())) / 2;
  auto drawn = at::empty_like(a.tensor(0), at::TensorOptions().dtype(twice ? at::kDouble : at::kFloat)).exponential_(lambda);
  a.tensor(0).copy_(drawn.clamp_min_(half / lambda));
  stack.emplace_back(a.tensor(0));
}
void fused_dropout(Stack& stack) {  // self, p (of keeping), generator
  Arguments a(stack);
  double keep = a.values[1].toDouble();
  auto mask = at::empty_like(a.tensor(0), at::TensorOptions().dtype(at::kFloat)).bernoulli_(keep).to(at::kByte);
  stack.emplace_back(a.tensor(0) * mask * (1 / keep)), stack.emplace_back(mask);
}
void masked_scale(Stack& stack) {  // self, mask, scale
  Arguments a(stack);
  stack.emplace_back(a.tensor(0) * a.tensor(1) * a.values[2].toDouble());
}
void lstm_cell(Stack& stack) {  // input_gates, hidden_gates, cx, input_bias, hidden_bias
  Arguments a(stack);
  auto gates = a.tensor(0) + a.tensor(1);
  if (a.maybe(3)) gates = gates + a.tensor(3) + a.tensor(4);
  auto g = gates.chunk(4, 1);
  auto i = g[0].sigmoid(), f = g[1].sigmoid(), c = g[2].tanh(), o = g[3].sigmoid();
  auto cy = f * a.tensor(2) + i * c, hy = o * cy.tanh();
  stack.emplace_back(hy), stack.emplace_back(cy), stack.emplace_back(at::cat({i, f, c, o}, 1));
}
void lstm_cell_backward(Stack& stack) {  // grad_hy, grad_cy, cx, cy, workspace, has_bias
  Arguments a(stack);
  auto w = a.tensor(4).chunk(4, 1);
  auto i = w[0], f = w[1], c = w[2], o = w[3], t = a.tensor(3).tanh();
  auto zero = at::zeros_like(a.tensor(2));
  auto gh = a.maybe(0).value_or(zero), gc = a.maybe(1).value_or(zero) + gh * o * (1 - t * t);
  auto gates = at::cat({gc * c * i * (1 - i), gc * a.tensor(2) * f * (1 - f), gc * i * (1 - c * c), gh * t * o * (1 - o)}, 1);
  stack.emplace_back(gates), stack.emplace_back(gc * f);
  stack.emplace_back(a.values[5].toBool() ? gates.sum(0) : Tensor());
}
void gru_cell(Stack& stack) {  // input_gates, hidden_gates, hx, input_bias, hidden_bias
  Arguments a(stack);
  auto gi = a.maybe(3) ? a.tensor(0) + a.tensor(3) : a.tensor(0), gh = a.maybe(4) ? a.tensor(1) + a.tensor(4) : a.tensor(1);
  auto i = gi.chunk(3, 1), h = gh.chunk(3, 1);
  auto r = (i[0] + h[0]).sigmoid(), z = (i[1] + h[1]).sigmoid(), n = (i[2] + r * h[2]).tanh();
  stack.emplace_back((a.tensor(2) - n) * z + n);
  stack.emplace_back(at::cat({r, z, n, a.tensor(2), h[2]}, 1));
}
void gru_cell_backward(Stack& stack) {  // grad_hy, workspace, has_bias
  Arguments a(stack);
  auto w = a.tensor(1).chunk(5, 1);
  auto r = w[0], z = w[1], n = w[2], hx = w[3], hn = w[4], g = a.tensor(0);
  auto gn = g * (1 - z) * (1 - n * n), gz = g * (hx - n) * z * (1 - z), gr = gn * hn * r * (1 - r);
  auto gi = at::cat({gr, gz, gn}, 1), gh = at::cat({gr, gz, gn * r}, 1);
  bool bias = a.values[2].toBool();
  stack.emplace_back(gi), stack.emplace_back(gh), stack.emplace_back(g * z);
  stack.emplace_back(bias ? gi.sum(0) : Tensor()), stack.emplace_back(bias ? gh.sum(0) : Tensor());
}

// The device takes half precision in and gives single out in one kernel; the CPU refuses that.
template <class Compute>
void softmax(Stack& stack, Compute compute) {  // self, dim, half_to_float[, out]
  Arguments a(stack);
  auto result = compute(a.values[2].toBool() ? a.tensor(0).to(at::kFloat) : a.tensor(0), a.values[1].toInt());
  if (a.values.size() > 3) a.tensor(3).copy_(result);
  stack.emplace_back(a.values.size() > 3 ? a.tensor(3) : result);
}
template <class Compute>
void softmax_backward(Stack& stack, Compute compute) {  // grad_output, output, dim, input_dtype[, grad_input]
  Arguments a(stack);
  auto result = compute(a.tensor(0), a.tensor(1), a.values[2].toInt()).to(a.values[3].toScalarType());
  if (a.values.size() > 4) a.tensor(4).copy_(result);
  stack.emplace_back(a.values.size() > 4 ? a.tensor(4) : result);
}
void any_softmax(Stack& stack) {
  softmax(stack, [](const Tensor& x, int64_t dim) { return at::_softmax(x, dim, false); });
}
void log_softmax(Stack& stack) {
  softmax(stack, [](const Tensor& x, int64_t dim) { return at::_log_softmax(x, dim, false); });
}
void any_softmax_backward(Stack& stack) {
  softmax_backward(stack, [](const Tensor& grad, const Tensor& y, int64_t dim) {
    return at::_softmax_backward_data(grad, y, dim, y.scalar_type());
  });
}
void log_softmax_backward(Stack& stack) {
  softmax_backward(stack, [](const Tensor& grad, const Tensor& y, int64_t dim) {
    return at::_log_softmax_backward_data(grad, y, dim, y.scalar_type());
  });
}

// Products of eight-bit numbers with a scale for each matrix, or for each row and column; with a scale of its own an
// eight-bit result ends at the largest number there is.
void scaled_mm(Stack& stack) {  // self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum[, out]
  Arguments a(stack);
  auto result = at::mm(a.tensor(0).to(at::kFloat), a.tensor(1).to(at::kFloat)) * a.tensor(2) * a.tensor(3);
  if (a.maybe(4)) result = result + a.tensor(4).to(at::kFloat);
  const bool placed = a.values.size() > 8;
  auto type = a.values[6].isNone() ? a.tensor(0).scalar_type() : a.values[6].toScalarType();
  if (placed) type = a.tensor(8).scalar_type();
  if (c10::isFloat8Type(type)) {
    if (a.maybe(5)) result = result * a.tensor(5);
    const double most = type == at::kFloat8_e5m2 ? 57344 : 448;
    result = result.clamp(-most, most);
  }
  if (placed) a.tensor(8).copy_(result);
  stack.emplace_back(placed ? a.tensor(8) : result.to(type));
}

}  // namespace

Decomposition decomposition(const std::string& name) {
  static const std::unordered_map<std::string, Decomposition> table = {
      {"aten::cudnn_convolution", cudnn_convolution},
      {"aten::cudnn_convolution_transpose", cudnn_convolution_transpose},
      {"aten::cudnn_convolution_relu", cudnn_convolution_relu},
      {"aten::cudnn_convolution_add_relu", cudnn_convolution_add_relu},
      {"aten::cudnn_batch_norm", cudnn_batch_norm},
      {"aten::cudnn_batch_norm_backward", cudnn_batch_norm_backward},
      {"aten::miopen_convolution", miopen_convolution},
      {"aten::miopen_depthwise_convolution", miopen_convolution},
      {"aten::miopen_convolution_transpose", miopen_convolution_transpose},
      {"aten::miopen_convolution_relu", cudnn_convolution_relu},
      {"aten::miopen_convolution_add_relu", cudnn_convolution_add_relu},
      {"aten::miopen_batch_norm", miopen_batch_norm},
      {"aten::miopen_batch_norm_backward", cudnn_batch_norm_backward},
      {"aten::cudnn_grid_sampler", cudnn_grid_sampler},
      {"aten::cudnn_grid_sampler_backward", cudnn_grid_sampler_backward},
      {"aten::cudnn_affine_grid_generator", cudnn_affine_grid_generator},
      {"aten::_scaled_dot_product_flash_attention", flash_attention},
      {"aten::_scaled_dot_product_flash_attention_backward", flash_attention_backward},
      {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
      {"aten::_scaled_dot_product_efficient_attention_backward", efficient_attention_backward},
      {"aten::_flash_attention_forward", flash_attention_packed},
      {"aten::_flash_attention_backward", flash_attention_packed_backward},
      {"aten::_efficient_attention_forward", efficient_attention_packed},
      {"aten::_efficient_attention_backward", efficient_attention_packed_backward},
      {"aten::_scaled_dot_product_cudnn_attention", cudnn_attention},
      {"aten::_scaled_dot_product_cudnn_attention_backward", cudnn_attention_backward},
      {"aten::_fill_mem_eff_dropout_mask_", fill_dropout_mask},
      {"aten::batch_norm_stats", batch_norm_stats},
      {"aten::batch_norm_elemt", batch_norm_elemt},
      {"aten::batch_norm_gather_stats", batch_norm_gather_stats},
      {"aten::batch_norm_gather_stats_with_counts", batch_norm_gather_stats_with_counts},
      {"aten::batch_norm_backward_reduce", batch_norm_backward_reduce},
      {"aten::batch_norm_backward_elemt", batch_norm_backward_elemt},
      {"aten::_cudnn_rnn", cudnn_rnn},
      {"aten::_cudnn_rnn_backward", cudnn_rnn_backward},
      {"aten::_fused_dropout", fused_dropout},
      {"aten::exponential_", exponential},
      {"aten::_masked_scale", masked_scale},
      {"aten::_softmax", any_softmax},
      {"aten::_log_softmax", log_softmax},
      {"aten::_softmax_backward_data", any_softmax_backward},
      {"aten::_log_softmax_backward_data", log_softmax_backward},
      {"aten::_scaled_mm", scaled_mm},
      {"aten::_cslt_compress", cslt_compress},
      {"aten::_cslt_sparse_mm", cslt_sparse_mm},
      {"aten::_thnn_fused_lstm_cell", lstm_cell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
      {"aten::_thnn_fused_gru_cell", gru_cell},
      {"aten::_thnn_fused_gru_cell_backward", gru_cell_backward},
  };
  auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace shadow
