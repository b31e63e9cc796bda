#include "plan.h"

#include <ATen/core/enum_tag.h>

#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "decompositions.h"

namespace shadow {
namespace {

using c10::DispatchKey;

// They allocate, change metadata, or move bytes as the host asks: nothing is computed.
const std::unordered_set<std::string> kPass = {
    "aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided",
    "aten::_empty_affine_quantized", "aten::_empty_per_channel_affine_quantized", "aten::empty_quantized",
    "aten::resize_", "aten::resize_as_", "aten::_resize_output_", "aten::set_", "aten::record_stream",
    "aten::is_pinned", "aten::_pin_memory", "aten::pin_memory", "aten::_efficientzerotensor",
    "aten::is_set_to", "aten::_local_scalar_dense", "aten::retain_grad", "aten::_has_same_storage_numel",
    "aten::_cudnn_init_dropout_state", "aten::_cudnn_rnn_flatten_weight", "aten::_fused_sdp_choice",
    "aten::_sparse_coo_tensor_unsafe", "aten::_sparse_coo_tensor_with_dims", "aten::_sparse_coo_tensor_with_dims_and_tensors",
    "aten::_sparse_compressed_tensor_unsafe", "aten::_coalesced_", "aten::_nnz", "aten::sparse_dim", "aten::dense_dim",
    "aten::is_coalesced", "aten::_dimI", "aten::_dimV", "aten::_foreach_copy_pass", "aten::_cuda_getCurrentRawStream",
    "aten::_nested_tensor_storage_offsets", "aten::_nested_tensor_size", "aten::_nested_tensor_strides",
    "aten::_use_cudnn_ctc_loss", "aten::_use_cudnn_rnn_flatten_weight",
    "aten::lift", "aten::lift_fresh", "aten::sparse_resize_", "aten::sparse_resize_and_clear_",
};

// Made of others, which have their values: on the way the host reads what these wrote.
const std::unordered_set<std::string> kMade = {"aten::_nested_tensor_from_mask", "aten::_nested_tensor_from_tensor_list",
                                               "aten::_nested_tensor_from_mask_left_aligned", "aten::_embedding_bag_backward"};

// What has kernels of its own for nested tensors. Everything else that is asked of these is made of what is asked of their
// storage.
const std::unordered_set<std::string> kNested = {"aten::bmm", "aten::to_padded_tensor", "aten::nested_to_padded_tensor",
                                                 "aten::_nested_tensor_softmax_with_shape", "aten::add", "aten::add_",
                                                 "aten::mul", "aten::mul_", "aten::native_layer_norm",
                                                 "aten::native_layer_norm_backward",
                                                 "aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"};

// Composite, but taken as a whole: what they are made of has no CPU counterpart.
const std::unordered_set<std::string> kWhole = {"aten::convolution", "aten::convolution_backward", "aten::_convolution"};

// Their libraries say in memory of the device how it went; what the operator filled that with must be there to be read. Where
// one works in place its input may not be touched before the CPU has read it.
bool steps(const std::string& name) {
  static const std::unordered_set<std::string> kOthers = {
      "aten::cholesky", "aten::cholesky_inverse", "aten::_cholesky_solve_helper", "aten::cholesky_solve", "aten::geqrf",
      "aten::ormqr", "aten::orgqr", "aten::lu_solve", "aten::_lu_with_info", "aten::triangular_solve", "aten::inverse",
      "aten::_nested_from_padded", "aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention",
  };
  if (name.back() == '_') return false;
  return name.rfind("aten::linalg_", 0) == 0 || name.rfind("aten::_linalg_", 0) == 0 || kOthers.count(name);
}

bool has_device_kernel(const c10::OperatorHandle& op) {
  for (auto key : {DispatchKey::CUDA, DispatchKey::SparseCUDA, DispatchKey::SparseCsrCUDA})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}
bool has_cpu_kernel(const c10::OperatorHandle& op) {
  for (auto key : {DispatchKey::CPU, DispatchKey::SparseCPU, DispatchKey::SparseCsrCPU})
    if (op.hasComputedKernelForDispatchKey(key)) return true;
  return false;
}

Plan decide(const c10::OperatorHandle& op) {
  Plan plan;
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  if (name.rfind("aten::", 0) != 0 || kPass.count(name) || kMade.count(name)) return plan;
  for (at::Tag tag : op.getTags()) {
    if (tag == at::Tag::inplace_view) return plan;
    if (tag == at::Tag::nondeterministic_seeded) plan.random = true;
    if (tag == at::Tag::dynamic_output_shape) plan.dynamic = true;
  }
  for (const auto& result : schema.returns())
    if (result.alias_info() && !result.alias_info()->isWrite()) return plan;  // a view
  plan.makes_sparse = name.rfind("aten::_to_sparse", 0) == 0 || name == "aten::_coalesce";
  plan.steps = steps(name);
  plan.asserts = name == "aten::_assert_async";
  plan.nested = kNested.count(name);
  if (name == "aten::copy_") {
    plan.way = Way::moves;
    return plan;
  }
  if (decomposition(name)) {
    plan.way = Way::value;
    return plan;
  }
  if (!kWhole.count(name) && !has_device_kernel(op)) {
    if (plan.nested && op.hasKernelForDispatchKey(DispatchKey::NestedTensorCUDA)) plan.way = Way::value;
    return plan;
  }
  if (has_cpu_kernel(op)) plan.way = Way::value;
  return plan;
}

}  // namespace

const Plan& plan_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<std::string, Plan> plans;
  static thread_local std::unordered_map<const void*, const Plan*> known;  // by schema, without the lock
  const Plan*& plan = known[&op.schema()];
  if (!plan) {
    std::string key = op.schema().name() + "." + op.schema().overload_name();
    std::lock_guard<std::mutex> lock(mutex);
    auto it = plans.find(key);
    if (it == plans.end()) it = plans.emplace(key, decide(op)).first;
    plan = &it->second;
  }
  return *plan;
}

}  // namespace shadow
