// The kernels of torch_sim, declared by operators.yaml. These run on the simulated device: enqueued on the current
// stream, they reach device memory through sim_view(). On a device of yours, launch on native_current_stream() instead.
#include <ATen/TensorIterator.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "operators.h"
#include <third_device/sim_driver.h>
#include <third_device/backend.h>

namespace sim {
namespace {

using third_device::enqueue;
using third_device::sim::sim_view_as;

// Applies `f` to the elements of an iterator of floats with one output and N inputs, whatever the strides.
template <size_t N, typename F>
void elementwise(at::TensorIteratorBase& iterator, F f) {
  struct Operand {
    char* data;
    std::vector<int64_t> strides;  // bytes
  };
  std::array<Operand, N + 1> operands;
  for (size_t i = 0; i <= N; ++i) {
    operands[i].data = static_cast<char*>(iterator.data_ptr(static_cast<int>(i)));
    operands[i].strides.assign(iterator.strides(static_cast<int>(i)).begin(), iterator.strides(static_cast<int>(i)).end());
  }
  std::vector<int64_t> shape(iterator.shape().begin(), iterator.shape().end());
  const int64_t count = iterator.numel();
  enqueue(iterator.device(0).index(), [operands, shape, count, f] {
    std::array<char*, N + 1> base;
    for (size_t i = 0; i <= N; ++i) base[i] = sim_view_as(operands[i].data);
    std::vector<int64_t> at(shape.size(), 0);
    std::array<int64_t, N + 1> offset{};
    for (int64_t done = 0; done < count; ++done) {
      auto in = [&](size_t i) { return *reinterpret_cast<const float*>(base[i] + offset[i]); };
      float* out = reinterpret_cast<float*>(base[0] + offset[0]);
      if constexpr (N == 1) {
        *out = f(in(1));
      } else {
        *out = f(in(1), in(2));
      }
      for (size_t d = 0; d < shape.size(); ++d) {
        for (size_t i = 0; i <= N; ++i) offset[i] += operands[i].strides[d];
        if (++at[d] < shape[d]) break;
        for (size_t i = 0; i <= N; ++i) offset[i] -= operands[i].strides[d] * shape[d];
        at[d] = 0;
      }
    }
  });
}

// out = beta * add + alpha * a @ b; `add` has strides (0 where it is broadcast) and is null for beta 0.
void matrix_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, const float* add, int64_t add_row,
                    int64_t add_column, float beta, float alpha) {
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  const float *left = a.const_data_ptr<float>(), *right = b.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  enqueue(out.get_device(), [=] {
    const float *l = sim_view_as(left), *r = sim_view_as(right), *plus = sim_view_as(add);
    float* o = sim_view_as(result);
    for (int64_t i = 0; i < rows; ++i) {
      float* row = o + i * columns;
      for (int64_t j = 0; j < columns; ++j) row[j] = plus == nullptr ? 0 : beta * plus[i * add_row + j * add_column];
      for (int64_t k = 0; k < inner; ++k) {
        const float factor = alpha * l[i * inner + k];
        for (int64_t j = 0; j < columns; ++j) row[j] += factor * r[k * columns + j];
      }
    }
  });
}

void check_product(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "mat1 and mat2 must be matrices");
  TORCH_CHECK(a.size(1) == b.size(0), "mat1 and mat2 shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
              b.size(0), "x", b.size(1), ")");
}

}  // namespace

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  check_product(self, mat2);
  out.resize_({self.size(0), mat2.size(1)});
  matrix_product(self, mat2, out, nullptr, 0, 0, 0, 1);
  return out;
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  check_product(mat1, mat2);
  at::Tensor add = self.expand({mat1.size(0), mat2.size(1)});
  out.resize_({mat1.size(0), mat2.size(1)});
  const bool uses_add = beta.toFloat() != 0;
  matrix_product(mat1, mat2, out, uses_add ? add.const_data_ptr<float>() : nullptr, add.stride(0), add.stride(1),
                 beta.toFloat(), alpha.toFloat());
  return out;
}

at::Tensor relu(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  const float* from = self.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  enqueue(out.get_device(), [=, count = self.numel()] {
    const float* in = sim_view_as(from);
    std::transform(in, in + count, sim_view_as(to), [](float x) { return std::isnan(x) || x > 0 ? x : 0; });
  });
  return out;
}

at::Tensor& threshold_backward_out(const at::Tensor& grad_output, const at::Tensor& self, const at::Scalar& threshold,
                                   at::Tensor& grad_input) {
  TORCH_CHECK(grad_output.sizes() == self.sizes(), "grad_output and self must have the same shape");
  grad_input.resize_(self.sizes());
  const float *grad = grad_output.const_data_ptr<float>(), *input = self.const_data_ptr<float>();
  float* to = grad_input.mutable_data_ptr<float>();
  enqueue(self.get_device(), [=, limit = threshold.toFloat(), count = self.numel()] {
    const float *g = sim_view_as(grad), *x = sim_view_as(input);
    std::transform(g, g + count, x, sim_view_as(to), [limit](float dy, float v) { return v <= limit ? 0 : dy; });
  });
  return grad_input;
}

at::Tensor& fill_(at::Tensor& self, const at::Scalar& value) {
  float* to = self.mutable_data_ptr<float>();
  enqueue(self.get_device(), [=, with = value.toFloat(), count = self.numel()] {
    std::fill_n(sim_view_as(to), count, with);
  });
  return self;
}

void add_kernel(at::TensorIteratorBase& iterator, const at::Scalar& alpha) {
  elementwise<2>(iterator, [factor = alpha.toFloat()](float a, float b) { return a + factor * b; });
}

void mul_kernel(at::TensorIteratorBase& iterator) {
  elementwise<2>(iterator, [](float a, float b) { return a * b; });
}

void abs_kernel(at::TensorIteratorBase& iterator) {
  elementwise<1>(iterator, [](float a) { return std::abs(a); });
}

// An operator of our own: x * sigmoid(x), with its gradient, from operators that exist.
at::Tensor swish(const at::Tensor& self) { return self * self.sigmoid(); }

std::vector<at::Tensor> swish_backward(const at::Tensor& grad, const at::Tensor& self) {
  at::Tensor sigmoid = self.sigmoid();
  return {grad * (sigmoid * (1 + self * (1 - sigmoid)))};
}

}  // namespace sim
