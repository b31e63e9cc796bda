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
  if (t.layout() == c10::kSparse) {
    auto made = at::_sparse_coo_tensor_unsafe(mirror(t._indices()), mirror(t._values()), t.sizes(),
                                              t.options().device(at::kCPU), t.is_coalesced());
    return made;
  }
  bool rows = t.layout() == c10::kSparseCsr || t.layout() == c10::kSparseBsr;
  return at::_sparse_compressed_tensor_unsafe(mirror(rows ? t.crow_indices() : t.ccol_indices()),
                                              mirror(rows ? t.col_indices() : t.row_indices()), mirror(t.values()),
                                              t.sizes(), t.options().device(at::kCPU));
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
    bool rows = device.layout() == c10::kSparseCsr || device.layout() == c10::kSparseBsr;
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
  auto options = value.options().device(device);
  if (value.layout() == c10::kSparse)
    return at::_sparse_coo_tensor_unsafe(to_device(value._indices(), device), to_device(value._values(), device),
                                         value.sizes(), options, value.is_coalesced());
  if (value.layout() != c10::kStrided) {
    bool rows = value.layout() == c10::kSparseCsr || value.layout() == c10::kSparseBsr;
    return at::_sparse_compressed_tensor_unsafe(
        to_device(rows ? value.crow_indices() : value.ccol_indices(), device),
        to_device(rows ? value.col_indices() : value.row_indices(), device), to_device(value.values(), device), value.sizes(),
        options);
  }
  auto made = at::empty_strided(value.sizes(), value.strides(), options);
  put(made, value);
  return made;
}

}  // namespace shadow
