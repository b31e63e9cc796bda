#include "widen.h"

#include <ATen/ATen.h>

#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace shadow {
namespace {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

std::optional<at::ScalarType> wider(at::ScalarType type, bool bools = false) {
  if (bools) return type == at::kBool ? std::optional(at::kByte) : std::nullopt;
  switch (type) {
    case at::kHalf: case at::kBFloat16: case at::kFloat8_e4m3fn: case at::kFloat8_e5m2: return at::kFloat;
    case at::kComplexHalf: return at::kComplexFloat;
    default: return std::nullopt;
  }
}

struct Widened {
  std::vector<std::pair<Tensor, Tensor>> pairs;  // narrow, wide
  std::optional<at::ScalarType> narrow;
  bool bools;

  explicit Widened(bool of_bools) : bools(of_bools) {}
  Tensor of(const Tensor& t) {
    if (!t.defined() || t.layout() == c10::kMkldnn || t.layout() == c10::kJagged || (t.is_nested() && !t.is_contiguous()))
      return t;
    auto type = wider(t.scalar_type(), bools);
    if (!type) return t;
    narrow = t.scalar_type();
    for (auto& [a, b] : pairs)
      if (a.is_same(t) || (a.layout() == c10::kStrided && t.layout() == c10::kStrided && a.data_ptr() == t.data_ptr() &&
                           a.sizes() == t.sizes() && a.strides() == t.strides()))
        return b;
    pairs.emplace_back(t, t.to(*type));
    return pairs.back().second;
  }
};

}  // namespace

bool is_for_bools(const c10::Error& error) {
  return std::string(error.what_without_backtrace()).find("not implemented for 'Bool'") != std::string::npos;
}

bool is_for_type(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  for (const char* said : {"not implemented for", "unsupported dtype", "Unsupported dtype", "expected scalar type",
                           "support tensors of type"})
    if (text.find(said) != std::string::npos) return true;
  return false;
}

bool adds_up(const std::string& name) {
  static const std::unordered_set<std::string> names = {
      "aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm", "aten::baddbmm_", "aten::addbmm",
      "aten::mv", "aten::addmv", "aten::addmv_", "aten::dot", "aten::_addmm_activation", "aten::convolution",
      "aten::_convolution", "aten::convolution_backward", "aten::cudnn_convolution", "aten::cudnn_convolution_transpose",
      "aten::cudnn_convolution_relu", "aten::cudnn_convolution_add_relu", "aten::miopen_convolution",
      "aten::miopen_convolution_transpose", "aten::miopen_depthwise_convolution", "aten::miopen_convolution_relu",
      "aten::miopen_convolution_add_relu", "aten::_cudnn_rnn", "aten::_cudnn_rnn_backward", "aten::nll_loss_forward",
      "aten::nll_loss2d_forward"};
  return names.count(name);
}

// Have all tensors in lists the same type?
static bool of_one_type(const Stack& stack) {
  std::optional<at::ScalarType> type;
  for (const IValue& v : stack) {
    if (!v.isTensorList()) continue;
    for (const Tensor& t : v.toTensorVector()) {
      if (type && *type != t.scalar_type()) return false;
      type = t.scalar_type();
    }
  }
  return true;
}

bool is_sum(const std::string& name, const Stack& stack) {
  static const std::unordered_map<std::string, bool> of_lists = {
      {"aten::add", false}, {"aten::add_", false}, {"aten::sub", false}, {"aten::sub_", false},
      {"aten::_foreach_add", true}, {"aten::_foreach_add_", true}, {"aten::_foreach_sub", true}, {"aten::_foreach_sub_", true}};
  const auto found = of_lists.find(name);
  if (found == of_lists.end()) return false;
  if (found->second) return of_one_type(stack);
  if (!stack[1].isTensor()) return true;
  const Tensor &one = stack[0].toTensor(), &other = stack[1].toTensor();
  return one.scalar_type() == other.scalar_type() || other.unsafeGetTensorImpl()->is_wrapped_number();
}

bool widened(const c10::OperatorHandle& op, Stack* stack, const std::function<void(Stack*)>& compute, bool bools) {
  Widened wide(bools);
  auto each = [&](const Stack& from) {
    Stack to;
    for (const IValue& v : from) {
      if (v.isTensor()) {
        to.emplace_back(wide.of(v.toTensor()));
      } else if (v.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& t : v.toTensorVector()) list.push_back(wide.of(t));
        to.emplace_back(list);
      } else {
        to.push_back(v);
      }
    }
    return to;
  };
  Stack values = each(*stack);
  if (!wide.narrow) return false;
  compute(&values);
  if (op.schema().is_mutable())
    for (auto& [narrow, wider_one] : wide.pairs) Tensor(narrow).copy_(wider_one);
  auto back = [&](const Tensor& t) {
    return t.defined() && t.scalar_type() == *wider(*wide.narrow, bools) ? t.to(*wide.narrow) : t;
  };
  for (IValue& v : values) {
    if (v.isTensor()) v = back(v.toTensor());
    else if (v.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : v.toTensorVector()) list.push_back(back(t));
      v = list;
    }
  }
  *stack = std::move(values);
  return true;
}

}  // namespace shadow
