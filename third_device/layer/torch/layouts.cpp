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
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(OnItsDevice<at::native::new_with_dims_sparse>::call));
  m.impl("_sparse_coo_tensor_with_dims_and_tensors",
         TORCH_FN(OnItsDevice<at::native::new_with_dims_and_tensor_sparse_symint>::call));
  m.impl("empty.memory_format", TORCH_FN(OnItsDevice<at::native::empty_sparse>::call));
  m.impl("empty_like", TORCH_FN(OnItsDevice<at::native::empty_like_sparse_coo>::call));
  m.impl("clone", TORCH_FN(OnItsDevice<at::native::clone_sparse>::call));
  m.impl("copy_", TORCH_FN(at::native::copy_sparse_wrapper_));
  m.impl("copy_sparse_to_sparse_", TORCH_FN(at::native::copy_sparse_));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_sparse_back));
  m.impl("zero_", TORCH_FN(at::native::zero_sparse_));
  m.impl("sparse_resize_", TORCH_FN(at::native::sparse_resize_));
  m.impl("sparse_resize_and_clear_", TORCH_FN(at::native::sparse_resize_and_clear_));
  m.impl("resize_as_sparse_", TORCH_FN(at::native::resize_as_sparse_));
  m.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse));
  m.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse));
  m.impl("_nnz", TORCH_FN(at::native::_nnz_sparse));
  m.impl("is_coalesced", TORCH_FN(at::native::is_coalesced_sparse));
  m.impl("_coalesced_", TORCH_FN(at::native::_coalesced_sparse_));
  m.impl("_indices", TORCH_FN(at::native::_indices_sparse));
  m.impl("_values", TORCH_FN(at::native::_values_sparse));
  m.impl("indices", TORCH_FN(at::native::indices_sparse));
  m.impl("values", TORCH_FN(at::native::values_sparse));
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(at::native::empty_sparse_compressed));
  m.impl("empty_like", TORCH_FN(at::native::empty_like_sparse_csr));
  m.impl("clone", TORCH_FN(at::native::clone_sparse_compressed));
  m.impl("copy_", TORCH_FN(at::native::copy_sparse_compressed_));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_sparse_back));
  m.impl("resize_as_sparse_", TORCH_FN(at::native::resize_as_sparse_compressed_));
  m.impl("select.int", TORCH_FN(at::native::select_sparse_csr));
  m.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse_csr));
  m.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse_csr));
  m.impl("_nnz", TORCH_FN(at::native::_nnz_sparse_csr));
  m.impl("crow_indices", TORCH_FN(at::native::crow_indices_sparse_csr));
  m.impl("col_indices", TORCH_FN(at::native::col_indices_sparse_csr));
  m.impl("ccol_indices", TORCH_FN(at::native::ccol_indices_sparse_csr));
  m.impl("row_indices", TORCH_FN(at::native::row_indices_sparse_csr));
  m.impl("values", TORCH_FN(at::native::values_sparse_csr));
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_compressed_fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"_nested_tensor_from_tensor_list", "_nested_view_from_buffer"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
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
