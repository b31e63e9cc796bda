#include "nested.h"

#include <ATen/ATen.h>

namespace shadow {

bool nested_with_plain(const std::string& name, torch::jit::Stack* stack) {
  if (stack->size() < 2 || !(*stack)[0].isTensor() || !(*stack)[0].toTensor().is_nested()) return false;
  const bool adds = name == "aten::add" || name == "aten::add_", multiplies = name == "aten::mul" || name == "aten::mul_";
  if (!(adds || multiplies) || !(*stack)[1].isTensor()) return false;
  const at::Tensor one = (*stack)[0].toTensor(), other = (*stack)[1].toTensor();
  if (other.is_nested() || !other.dim()) return false;
  const auto parts = one.unbind();
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < parts.size(); i++) {
    const at::Tensor plain = other[other.size(0) == 1 ? 0 : int64_t(i)];
    found.push_back(adds ? at::add(parts[i], plain, (*stack)[2].toScalar()) : at::mul(parts[i], plain));
  }
  at::Tensor result;
  if (name.back() == '_') {
    for (size_t i = 0; i < parts.size(); i++) parts[i].copy_(found[i]);
    result = one;
  } else {
    result = at::_nested_tensor_from_tensor_list(found);
  }
  *stack = {result};
  return true;
}

}  // namespace shadow
