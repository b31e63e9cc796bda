// The kernels of torch_newdevice, declared by operators.yaml. These run on the simulated device: enqueued on the current
// stream, they reach device memory through sim_view(). On a device of yours, launch on native_current_stream() instead.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>

#include "operators.h"
#include <third_device/sim_driver.h>
#include <third_device/backend.h>
#include <third_device/elementwise.h>

namespace newdevice {
namespace {

using third_device::enqueue;
using third_device::sim::sim_view_as;

// Applies `f` to the elements of an iterator of floats with one output and N inputs, whatever the strides.
template <size_t N, typename F>
void elementwise(at::TensorIteratorBase& iterator, F f) {
  enqueue(iterator.device(0).index(), [all = third_device::operands_of<N + 1>(iterator), f] {
    char* base[N + 1];
    for (size_t i = 0; i <= N; ++i) base[i] = sim_view_as(all.data[i]);
    for (int64_t element = 0; element < all.count; ++element) {
      const auto places = all.places(element);
      auto in = [&](size_t i) { return *reinterpret_cast<const float*>(base[i] + places.bytes[i]); };
      float* out = reinterpret_cast<float*>(base[0] + places.bytes[0]);
      if constexpr (N == 1) *out = f(in(1));
      if constexpr (N == 2) *out = f(in(1), in(2));
    }
  });
}

// out = beta * add + alpha * a @ b, whatever their strides; `add` has strides (0 where it is broadcast) and is null for beta 0.
void matrix_product(const at::Tensor& a, const at::Tensor& b, at::Tensor& out, const float* add, int64_t add_row,
                    int64_t add_column, float beta, float alpha) {
  const int64_t rows = a.size(0), inner = a.size(1), columns = b.size(1);
  const int64_t a_row = a.stride(0), a_col = a.stride(1), b_row = b.stride(0), b_col = b.stride(1);
  const int64_t o_row = out.stride(0), o_col = out.stride(1);
  const float *left = a.const_data_ptr<float>(), *right = b.const_data_ptr<float>();
  float* result = out.mutable_data_ptr<float>();
  enqueue(out.get_device(), [=] {
    const float *l = sim_view_as(left), *r = sim_view_as(right), *plus = sim_view_as(add);
    float* o = sim_view_as(result);
    for (int64_t i = 0; i < rows; ++i) {
      float* row = o + i * o_row;
      for (int64_t j = 0; j < columns; ++j) row[j * o_col] = plus ? beta * plus[i * add_row + j * add_column] : 0;
      for (int64_t k = 0; k < inner; ++k)
        for (int64_t j = 0; j < columns; ++j) row[j * o_col] += alpha * l[i * a_row + k * a_col] * r[k * b_row + j * b_col];
    }
  });
}

}  // namespace

at::Tensor& mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  matrix_product(self, mat2, out, nullptr, 0, 0, 0, 1);
  return out;
}

at::Tensor& addmm_out(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2, const at::Scalar& beta,
                      const at::Scalar& alpha, at::Tensor& out) {
  at::Tensor add = self.expand({mat1.size(0), mat2.size(1)});
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

// relu's gradient: x is the input, y the gradient.
void threshold_kernel(at::TensorIteratorBase& iterator, const at::Scalar& threshold, const at::Scalar& value) {
  const float limit = threshold.toFloat(), with = value.toFloat();
  elementwise<2>(iterator, [=](float x, float y) { return x <= limit ? with : y; });
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

}  // namespace newdevice
