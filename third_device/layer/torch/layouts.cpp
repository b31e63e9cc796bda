// Sparse tensors: their parts are tensors of the device, and what is computed with them is computed on the CPU. Nested
// tensors of the strided layout are refused.
#include <third_device/backend.h>

#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/select_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "fallback.h"

namespace third_device {
namespace {

using at::Tensor;

void refuse_nested(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.operator_name(), "' on the '", c10::get_privateuse1_backend(),
                              "' backend: it has no nested tensors of the strided layout; next: layout=torch.jagged");
}

// What the fallback computed in place; the source is on the CPU and may have another number of elements.
Tensor copy_sparse_back(const Tensor& source, const Tensor& target) {
  Tensor into = target;
  into.copy_(source);
  return into;
}

// The device that is asked for, or else that of the first tensor.
template <typename Argument>
void choose_device(std::optional<c10::Device>& chosen, const Argument& argument) {
  if constexpr (std::is_same_v<Argument, std::optional<c10::Device>>) {
    if (argument.has_value()) chosen = argument;
  } else if constexpr (std::is_same_v<Argument, Tensor>) {
    if (!chosen.has_value()) chosen = argument.device();
  }
}

template <auto Function, typename = decltype(Function)>
struct OnItsDevice;

// A function of ATen's with the device of what it makes as the current one: SparseTensorImpl makes its parts there, whatever
// device they are for (aten/src/ATen/SparseTensorImpl.cpp).
template <auto Function, typename Result, typename... Arguments>
struct OnItsDevice<Function, Result (*)(Arguments...)> {
  static Result call(Arguments... arguments) {
    std::optional<c10::Device> chosen;
    (choose_device(chosen, arguments), ...);
    const c10::OptionalDeviceGuard guard(chosen);
    return Function(std::forward<Arguments>(arguments)...);
  }
};

// What is about the parts and not about the numbers in them is ATen's own; it works for any device.
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::SparsePrivateUse1);
  ours.impl("_sparse_coo_tensor_with_dims", TORCH_FN(OnItsDevice<at::native::new_with_dims_sparse>::call));
  ours.impl("_sparse_coo_tensor_with_dims_and_tensors",
         TORCH_FN(OnItsDevice<at::native::new_with_dims_and_tensor_sparse_symint>::call));
  ours.impl("empty.memory_format", TORCH_FN(OnItsDevice<at::native::empty_sparse>::call));
  ours.impl("empty_like", TORCH_FN(OnItsDevice<at::native::empty_like_sparse_coo>::call));
  ours.impl("clone", TORCH_FN(OnItsDevice<at::native::clone_sparse>::call));
  ours.impl("copy_", TORCH_FN(at::native::copy_sparse_wrapper_));
  ours.impl("copy_sparse_to_sparse_", TORCH_FN(at::native::copy_sparse_));
  ours.impl("_copy_from_and_resize", TORCH_FN(copy_sparse_back));
  ours.impl("zero_", TORCH_FN(at::native::zero_sparse_));
  ours.impl("sparse_resize_", TORCH_FN(at::native::sparse_resize_));
  ours.impl("sparse_resize_and_clear_", TORCH_FN(at::native::sparse_resize_and_clear_));
  ours.impl("resize_as_sparse_", TORCH_FN(at::native::resize_as_sparse_));
  ours.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse));
  ours.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse));
  ours.impl("_nnz", TORCH_FN(at::native::_nnz_sparse));
  ours.impl("is_coalesced", TORCH_FN(at::native::is_coalesced_sparse));
  ours.impl("_coalesced_", TORCH_FN(at::native::_coalesced_sparse_));
  ours.impl("_indices", TORCH_FN(at::native::_indices_sparse));
  ours.impl("_values", TORCH_FN(at::native::_values_sparse));
  ours.impl("indices", TORCH_FN(at::native::indices_sparse));
  ours.impl("values", TORCH_FN(at::native::values_sparse));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::SparseCsrPrivateUse1);
  ours.impl("empty.memory_format", TORCH_FN(at::native::empty_sparse_compressed));
  ours.impl("empty_like", TORCH_FN(at::native::empty_like_sparse_csr));
  ours.impl("clone", TORCH_FN(at::native::clone_sparse_compressed));
  ours.impl("copy_", TORCH_FN(at::native::copy_sparse_compressed_));
  ours.impl("_copy_from_and_resize", TORCH_FN(copy_sparse_back));
  ours.impl("resize_as_sparse_", TORCH_FN(at::native::resize_as_sparse_compressed_));
  ours.impl("select.int", TORCH_FN(at::native::select_sparse_csr));
  ours.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse_csr));
  ours.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse_csr));
  ours.impl("_nnz", TORCH_FN(at::native::_nnz_sparse_csr));
  ours.impl("crow_indices", TORCH_FN(at::native::crow_indices_sparse_csr));
  ours.impl("col_indices", TORCH_FN(at::native::col_indices_sparse_csr));
  ours.impl("ccol_indices", TORCH_FN(at::native::ccol_indices_sparse_csr));
  ours.impl("row_indices", TORCH_FN(at::native::row_indices_sparse_csr));
  ours.impl("values", TORCH_FN(at::native::values_sparse_csr));
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_compressed_fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::PrivateUse1);
  for (const char* name : {"_nested_tensor_from_tensor_list", "_nested_view_from_buffer"}) {
    ours.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
  }
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}

}  // namespace

void sparse_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back(op, stack, c10::DispatchKey::SparseCPU);
}

void sparse_compressed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back(op, stack, c10::DispatchKey::SparseCsrCPU);
}

}  // namespace third_device
