#include "mirror.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/SparseTensorUtils.h>

#include <cstring>

namespace shadow {
namespace {

at::Tensor strided(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  auto options = at::TensorOptions().dtype(at::kByte).device(at::kCPU);
  at::Tensor bytes;
  // read, not asked for to be written: a storage that is copied when it is written would be copied now. Where the operator
  // writes, the real one has asked by now
  if (t.storage().nbytes() && t.storage().data())
    bytes = at::from_blob(const_cast<void*>(t.storage().data()), {int64_t(t.storage().nbytes())}, options);
  else
    bytes = at::empty({0}, options);
  auto keys = c10::DispatchKeySet(c10::DispatchKey::CPU);
  auto view = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(bytes.storage()), keys, t.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  if (t.is_conj()) view._set_conj(true);
  if (t.is_neg()) view._set_neg(true);
  return view;
}

// Sizes, strides and places of a nested tensor's parts lie on the host, whatever its device; its parts are one storage.
at::Tensor nested(const at::Tensor& like, const at::Tensor& storage) {
  auto* impl = at::native::get_nested_tensor_impl(like);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(storage, impl->get_nested_sizes(), impl->get_nested_strides(),
                                                               impl->get_storage_offsets());
}
at::Tensor storage_of(const at::Tensor& t) { return at::native::get_nested_tensor_impl(t)->get_unsafe_storage_as_tensor(); }

bool has_row_pointers(const at::Tensor& t) { return t.layout() == c10::kSparseCsr || t.layout() == c10::kSparseBsr; }

// A sparse tensor like `like`, of these parts. at::_sparse_*_tensor_unsafe would check them in a program that asked for
// checks (torch.sparse.check_sparse_tensor_invariants), and the parts of a result are right only when its values are here.
at::Tensor coo_of(const at::Tensor& like, const at::Tensor& indices, const at::Tensor& values, c10::Device device) {
  c10::DispatchKeySet keys(device.is_cpu() ? c10::DispatchKey::SparseCPU : c10::DispatchKey::SparseCUDA);
  auto made = at::detail::make_tensor<at::SparseTensorImpl>(keys, like.dtype());
  auto* impl = at::sparse::get_sparse_impl(made);
  impl->resize_(like.sparse_dim(), like.dense_dim(), like.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(like.is_coalesced());
  return made;
}
at::Tensor compressed_of(const at::Tensor& like, const at::Tensor& pointers, const at::Tensor& indices, const at::Tensor& values,
                         c10::Device device) {
  c10::DispatchKeySet keys(device.is_cpu() ? c10::DispatchKey::SparseCsrCPU : c10::DispatchKey::SparseCsrCUDA);
  auto made = at::detail::make_tensor<at::SparseCsrTensorImpl>(keys, device, like.layout(), like.dtype());
  at::sparse_csr::get_sparse_csr_impl(made)->set_member_tensors(pointers, indices, values, like.sizes());
  return made;
}

}  // namespace

bool same_shape(const at::Tensor& one, const at::Tensor& other) {
  if (one.is_nested() != other.is_nested()) return false;
  return one.is_nested() ? at::equal(at::native::get_nested_sizes(one), at::native::get_nested_sizes(other))
                         : one.sizes() == other.sizes();
}

bool can_mirror(const at::Tensor& t) {
  if (!t.defined() || !t.is_cuda()) return true;
  if (t.is_quantized() || t.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return false;
  if (t.is_nested()) return t.layout() == c10::kStrided;
  if (t._is_zerotensor()) return false;
  return t.layout() == c10::kStrided ? t.has_storage() : t.layout() == c10::kSparse || at::sparse_csr::is_sparse_compressed(t);
}

at::Tensor mirror(const at::Tensor& t) {
  if (!t.defined() || !t.is_cuda()) return t;
  if (t.is_nested()) return nested(t, strided(storage_of(t)));
  if (t.layout() == c10::kStrided) return strided(t);
  if (t.layout() == c10::kSparse) return coo_of(t, mirror(t._indices()), mirror(t._values()), at::kCPU);
  bool rows = has_row_pointers(t);
  return compressed_of(t, mirror(rows ? t.crow_indices() : t.ccol_indices()), mirror(rows ? t.col_indices() : t.row_indices()),
                       mirror(t.values()), at::kCPU);
}

void put(const at::Tensor& device, const at::Tensor& value) {
  if (device.is_nested()) {
    const auto to = mirror(device).unbind(), from = value.unbind();
    for (size_t i = 0; i < to.size(); i++) to[i].copy_(from[i]);
    return;
  }
  if (device.layout() == c10::kStrided && value.layout() == c10::kStrided) {
    if (!device.numel()) return;
    auto view = mirror(device);
    view.copy_(value);
    return;
  }
  if (device.layout() == c10::kSparse && value.layout() == c10::kSparse) {
    auto* impl = at::sparse::get_sparse_impl(device);
    impl->resize_(value.sparse_dim(), value.dense_dim(), value.sizes());
    impl->set_indices_and_values_unsafe(to_device(value._indices(), device.device()), to_device(value._values(), device.device()));
    impl->set_coalesced(value.is_coalesced());
    return;
  }
  if (at::sparse_csr::is_sparse_compressed(device) && value.layout() == device.layout()) {
    bool rows = has_row_pointers(device);
    auto* impl = at::sparse_csr::get_sparse_csr_impl(device);
    impl->set_member_tensors(to_device(rows ? value.crow_indices() : value.ccol_indices(), device.device()),
                             to_device(rows ? value.col_indices() : value.row_indices(), device.device()),
                             to_device(value.values(), device.device()), value.sizes());
    return;
  }
  throw std::runtime_error("result of another layout");
}

at::Tensor to_device(const at::Tensor& value, c10::Device device) {
  if (value.is_nested()) return nested(value, to_device(storage_of(value), device));
  if (value.layout() == c10::kSparse)
    return coo_of(value, to_device(value._indices(), device), to_device(value._values(), device), device);
  if (value.layout() != c10::kStrided) {
    bool rows = has_row_pointers(value);
    return compressed_of(value, to_device(rows ? value.crow_indices() : value.ccol_indices(), device),
                         to_device(rows ? value.col_indices() : value.row_indices(), device), to_device(value.values(), device),
                         device);
  }
  auto made = at::empty_strided(value.sizes(), value.strides(), value.options().device(device));
  put(made, value);
  return made;
}

}  // namespace shadow
