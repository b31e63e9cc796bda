#include "semi_structured.h"

#include <ATen/ATen.h>

#include <cstring>

#include "arguments.h"

namespace shadow {
namespace {

using at::Tensor;
using torch::jit::Stack;

// Sixteenths of the dense matrix that the compressed one takes: half of its elements, and two bits for each of these.
int64_t sixteenths(const Tensor& t) { return t.element_size() == 1 ? 10 : 9; }

Tensor compressed(const Tensor& dense) {
  auto from = dense.contiguous();
  const auto kept = from.to(at::kFloat).ne(0);  // a negative zero is none
  const size_t size = from.element_size();
  const int64_t groups = from.numel() / 4;
  auto out = at::zeros({from.numel() * sixteenths(from) / 16}, from.options());  // an element that is not there is zero
  const auto* source = (const char*)from.const_data_ptr();
  auto* elements = (char*)out.mutable_data_ptr();
  auto* places = (unsigned char*)elements + groups * 2 * size;
  for (int64_t group = 0; group < groups; group++)
    for (int place = 0, number = 0; place < 4 && number < 2; place++) {
      if (!kept.const_data_ptr<bool>()[group * 4 + place]) continue;
      memcpy(elements + (group * 2 + number) * size, source + (group * 4 + place) * size, size);
      places[group / 2] |= place << (group % 2 * 4 + number++ * 2);
    }
  return out;
}

Tensor dense(const Tensor& compressed, int64_t columns) {
  auto from = compressed.contiguous();
  const size_t size = from.element_size();
  const int64_t count = from.numel() * 16 / sixteenths(from), groups = count / 4;
  auto out = at::zeros({count / columns, columns}, from.options());
  const auto* elements = (const char*)from.const_data_ptr();
  auto* to = (char*)out.mutable_data_ptr();
  auto* places = (const unsigned char*)elements + groups * 2 * size;
  for (int64_t group = 0; group < groups; group++)
    for (int number = 1; number >= 0; number--) {  // the first one stands where a second one is not there
      const int place = places[group / 2] >> (group % 2 * 4 + number * 2) & 3;
      memcpy(to + (group * 4 + place) * size, elements + (group * 2 + number) * size, size);
    }
  return out;
}

}  // namespace

void cslt_compress(Stack& stack) {  // input
  Arguments a(stack);
  stack.emplace_back(compressed(a.tensor(0)));
}
void cslt_sparse_mm(Stack& stack) {  // compressed_A, dense_B, bias, alpha, out_dtype, transpose_result, alg_id, ...
  Arguments a(stack);
  const bool whole = a.tensor(0).scalar_type() == at::kChar;
  const auto wide = whole ? at::kInt : at::kFloat;
  auto result = at::mm(dense(a.tensor(0), a.tensor(1).size(0)).to(wide), a.tensor(1).to(wide));
  if (a.maybe(3)) result = result * (a.tensor(3).numel() > 1 ? a.tensor(3).reshape({-1, 1}) : a.tensor(3).reshape({}));
  if (a.maybe(2)) result = result + a.tensor(2).reshape({-1, 1}).to(result.scalar_type());
  const auto type = a.values[4].isNone() ? a.tensor(0).scalar_type() : a.values[4].toScalarType();
  if (type == at::kChar) result = result.clamp(-128, 127);
  if (at::isIntegralType(type, false) && result.is_floating_point()) result = result.round();
  stack.emplace_back((a.values[5].toBool() ? result.t() : result).to(type));
}

}  // namespace shadow
