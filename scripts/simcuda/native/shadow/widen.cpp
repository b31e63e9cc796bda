#include "widen.h"

#include <ATen/ATen.h>

#include <vector>

namespace shadow {
namespace {

using at::Tensor;
using c10::IValue;

std::optional<at::ScalarType> wider(at::ScalarType type) {
  switch (type) {
    case at::kHalf: case at::kBFloat16: case at::kFloat8_e4m3fn: case at::kFloat8_e5m2: return at::kFloat;
    case at::kComplexHalf: return at::kComplexFloat;
    default: return std::nullopt;
  }
}

struct Widened {
  std::vector<std::pair<Tensor, Tensor>> pairs;  // narrow, wide
  std::optional<at::ScalarType> narrow;

  Tensor of(const Tensor& t) {
    if (!t.defined() || t.layout() != c10::kStrided) return t;
    auto type = wider(t.scalar_type());
    if (!type) return t;
    narrow = t.scalar_type();
    for (auto& [a, b] : pairs)
      if (a.data_ptr() == t.data_ptr() && a.sizes() == t.sizes() && a.strides() == t.strides()) return b;
    pairs.emplace_back(t, t.to(*type));
    return pairs.back().second;
  }
};

}  // namespace

bool call_widened(const c10::OperatorHandle& op, torch::jit::Stack* stack, const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  if (text.find("not implemented for") == std::string::npos && text.find("unsupported dtype") == std::string::npos &&
      text.find("Unsupported dtype") == std::string::npos && text.find("expected scalar type") == std::string::npos)
    return false;
  Widened wide;
  for (IValue& v : *stack) {
    if (v.isTensor()) v = wide.of(v.toTensor());
    else if (v.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : v.toTensorVector()) list.push_back(wide.of(t));
      v = list;
    }
  }
  if (!wide.narrow) return false;
  op.callBoxed(stack);
  const auto& schema = op.schema();
  bool writes = schema.is_mutable();
  if (writes)
    for (auto& [narrow, widened] : wide.pairs) Tensor(narrow).copy_(widened);
  for (IValue& v : *stack)
    if (v.isTensor() && v.toTensor().defined() && v.toTensor().scalar_type() == *wider(*wide.narrow))
      v = v.toTensor().to(*wide.narrow);
  return true;
}

}  // namespace shadow
