// Operators that are about memory and not about arithmetic, and the CPU fallback for all the others.
#include <third_device/backend.h>
#include <third_device/compat.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorOperators.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace third_device {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

// --- making tensors ---

c10::Device device_or_current(optional<c10::Device> device) {
  int index = device.has_value() && device->has_index() ? device->index() : current_device();
  return {kDevice, static_cast<c10::DeviceIndex>(index)};
}

void refuse_options(optional<c10::Layout> layout, optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::Layout::Strided, "Only strided tensors can be made on ",
              c10::get_privateuse1_backend());
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Tensor empty(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
             optional<c10::Device> device, optional<bool> pin_memory, optional<c10::MemoryFormat> format) {
  refuse_options(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_generic(size, device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                     optional<c10::Device> device, optional<bool> pin_memory) {
  refuse_options(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

// --- shapes and storages ---

// Makes the storage hold what sizes and strides reach.
void fit_storage(const Tensor& self) {
  size_t needed = self.numel() == 0 ? 0
                                    : at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize(),
                                                                       static_cast<size_t>(self.storage_offset()));
  const c10::Storage& storage = self.storage();
  if (needed > storage.nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, needed);
}

const Tensor& resize_(const Tensor& self, IntArrayRef size, optional<c10::MemoryFormat> format) {
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) impl->set_sizes_contiguous(size);
  if (format.has_value()) impl->empty_tensor_restride(*format);
  fit_storage(self);
  return self;
}

Tensor& set_storage(Tensor& self, c10::Storage storage, int64_t offset, IntArrayRef size, IntArrayRef stride) {
  at::native::checkSetStorage<int64_t>(self, std::move(storage), offset, size, stride);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  if (stride.data() != nullptr) {
    impl->set_sizes_and_strides(size, stride, offset);
  } else {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  }
  fit_storage(self);
  return self;
}

Tensor& set_whole_storage(Tensor& self, c10::Storage storage) {
  auto elements = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return set_storage(self, std::move(storage), 0, {elements}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_nothing(Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator()->allocate(0), device_allocator(), true);
  return set_storage(self, std::move(storage), 0, {0}, {});
}

void record_stream(Tensor& self, at::Stream stream) {
  const c10::DataPtr& data = self.storage().data_ptr();
  device_memory::record_use(data.get_context(), stream.device_index(), stream.id());
}

// --- copies ---

// Enqueues bytes on the current stream of `device`. Pinned host memory is kept until they are copied; other host memory
// must be in place when this returns, so then it waits.
void copy_bytes(void* to, int to_device, const void* from, int from_device, size_t bytes, bool non_blocking) {
  if (bytes == 0) return;
  const int device = from_device == TD_HOST ? to_device : from_device;
  const StreamId id = current_stream(device);
  check(driver().copy(to, to_device, from, from_device, bytes, native_stream(device, id)), "copying");
  const bool to_host = to_device == TD_HOST;
  if (!to_host && from_device != TD_HOST) return;
  const bool pinned = pinned_memory::record_use(to_host ? to : from, device, id);
  if (!pinned || !non_blocking) synchronize_current(device);
}

// Work enqueued after this on the current stream of `later` starts after all work so far on that of `earlier`.
void order_after(int later, int earlier) {
  td_event event = nullptr;
  check(driver().event_create(earlier, 0, &event), "making an event");
  td_status status = driver().event_record(event, native_current_stream(earlier));
  if (status == TD_OK) status = driver().stream_wait(native_current_stream(later), event);
  driver().event_destroy(event);
  check(status, "ordering streams");
}

int index_of(const Tensor& tensor) { return tensor.is_privateuseone() ? tensor.get_device() : TD_HOST; }

// Neither here nor on the host: CUDA's, say. No driver knows such an address.
bool is_elsewhere(const Tensor& tensor) { return !tensor.is_privateuseone() && !tensor.is_cpu(); }

// The bytes from the first to the last element of a device tensor, as a CPU tensor of the same strides and dtype.
Tensor span_to_host(const Tensor& source) {
  Tensor host = at::empty_strided(source.sizes(), source.strides(), source.options().device(at::kCPU));
  copy_bytes(host.data_ptr(), TD_HOST, source.data_ptr(), source.get_device(),
             at::detail::computeStorageNbytes(source.sizes(), source.strides(), source.itemsize()), false);
  host._set_conj(source.is_conj());
  host._set_neg(source.is_neg());
  return host;
}

void span_to_device(const Tensor& host, const Tensor& target, bool non_blocking) {
  copy_bytes(target.data_ptr(), target.get_device(), host.data_ptr(), TD_HOST,
             at::detail::computeStorageNbytes(target.sizes(), target.strides(), target.itemsize()), non_blocking);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg() && a.strides() == b.strides() &&
         a.is_non_overlapping_and_dense();
}

Tensor copy_from(const Tensor& given, const Tensor& target, bool non_blocking) {
  if (target.numel() == 0 || given.is_same(target)) return target;
  if (is_elsewhere(given)) return copy_from(given.cpu(), target, false);
  if (is_elsewhere(target)) {
    target.copy_(given.cpu());
    return target;
  }
  const Tensor source = given.sizes() == target.sizes() ? given : given.expand(target.sizes());
  const int from = index_of(source);
  const int to = index_of(target);
  c10::DeviceGuard guard(from != TD_HOST ? source.device() : target.device());
  const bool crossing = from != TD_HOST && to != TD_HOST && from != to;
  if (same_bytes(source, target)) {
    if (crossing) order_after(from, to);
    copy_bytes(target.data_ptr(), to, source.data_ptr(), from, target.nbytes(), non_blocking);
    if (crossing) order_after(to, from);
    return target;
  }
  // Different strides or types: the host rearranges. A backend with a kernel for it registers copy itself.
  Tensor host = from == TD_HOST ? source : span_to_host(source);
  if (to == TD_HOST) {
    target.copy_(host);
    return target;
  }
  guard.reset_device(target.device());
  if (target.is_non_overlapping_and_dense()) {
    Tensor arranged = at::empty_strided(target.sizes(), target.strides(), target.options().device(at::kCPU));
    arranged._set_conj(target.is_conj());
    arranged._set_neg(target.is_neg());
    span_to_device(arranged.copy_(host), target, false);
  } else {
    Tensor around = span_to_host(target);
    around.copy_(host);
    span_to_device(around, target, false);
  }
  return target;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  if (source.sizes() != target.sizes()) resize_(target, source.sizes(), std::nullopt);
  return copy_from(source, target, false);
}

at::Scalar local_scalar_dense(const Tensor& self) { return span_to_host(self).item(); }

Tensor& zero_(Tensor& self) {
  if (self.numel() == 0) return self;
  c10::DeviceGuard guard(self.device());
  if (self.is_non_overlapping_and_dense()) {
    const int device = self.get_device();
    check(driver().memory_set(self.data_ptr(), 0, self.nbytes(), native_current_stream(device)), "filling memory");
    return self;
  }
  copy_from(at::empty({}, self.options().device(at::kCPU)).zero_(), self, false);
  return self;
}

std::atomic<bool> fallback_on{true};

void refuse_unless_fallback(const char* op) {
  TORCH_CHECK_NOT_IMPLEMENTED(fallback_on.load(), "Could not run '", op, "' on the '", c10::get_privateuse1_backend(),
                              "' backend: it has no kernel for this operator, and the CPU fallback is switched off");
}

// --- quantized tensors: made on the CPU, kept on the device ---

Tensor empty_affine_quantized(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout>,
                              optional<c10::Device> device, optional<bool>, double scale, int64_t zero_point,
                              optional<c10::MemoryFormat> format) {
  TORCH_CHECK(dtype.has_value(), "a quantized tensor needs a dtype");
  c10::DeviceGuard guard(device_or_current(device));
  auto options = at::TensorOptions().dtype(*dtype).device(device_or_current(device)).memory_format(format);
  return at::new_qtensor(size, options, at::make_per_tensor_affine_quantizer(scale, zero_point, *dtype));
}

Tensor quantize_per_tensor(const Tensor& self, double scale, int64_t zero_point, at::ScalarType dtype) {
  Tensor host = at::quantize_per_tensor(self.cpu(), scale, zero_point, dtype);
  Tensor made = empty_affine_quantized(self.sizes(), dtype, std::nullopt, self.device(), std::nullopt, scale, zero_point,
                                       std::nullopt);
  span_to_device(host.contiguous(), made, false);
  return made;
}

// On the host with the same strides, whatever lies between the elements included.
Tensor quantized_to_host(const Tensor& self) {
  const int64_t span = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize());
  Tensor host = at::new_qtensor({span / static_cast<int64_t>(self.itemsize())}, self.options().device(at::kCPU),
                                self.quantizer());
  copy_bytes(host.data_ptr(), TD_HOST, self.data_ptr(), self.get_device(), span, false);
  return host.as_strided(self.sizes(), self.strides());
}

Tensor dequantize(const Tensor& self) { return quantized_to_host(self).dequantize().to(self.device()); }

Tensor int_repr(const Tensor& self) { return quantized_to_host(self).int_repr().to(self.device()); }

// --- convolution: ATen sends unknown devices to an operator that they must override ---

Tensor convolution(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  refuse_unless_fallback("aten::convolution");
  const bool has_bias = bias.has_value() && bias->defined();
  return at::convolution(input.cpu(), weight.cpu(), has_bias ? optional<Tensor>(bias->cpu()) : std::nullopt, stride,
                         padding, dilation, transposed, output_padding, groups)
      .to(input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  refuse_unless_fallback("aten::convolution_backward");
  std::vector<int64_t> bias_sizes{weight.size(transposed ? 1 : 0) * (transposed ? groups : 1)};
  auto host = at::convolution_backward(grad.cpu(), input.cpu(), weight.cpu(), at::IntArrayRef(bias_sizes), stride,
                                       padding, dilation, transposed, output_padding, groups, mask);
  auto back = [&](const Tensor& made) { return made.defined() ? made.to(input.device()) : made; };
  return {back(std::get<0>(host)), back(std::get<1>(host)), back(std::get<2>(host))};
}

// --- recurrent cells: ATen sends them to fused operators that the CPU does not have (aten/src/ATen/native/RNN.cpp) ---
//
// Made of plain operators, above and below autograd, so that gradients come by themselves. The workspace that comes back
// is for the fused backward, which nothing calls then.

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, -1);
  Tensor cy = gates[1].sigmoid() * cx + gates[0].sigmoid() * gates[2].tanh();
  Tensor hy = gates[3].sigmoid() * cy.tanh();
  return {hy, cy, input_gates.new_empty({0})};
}

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, -1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, -1);
  const Tensor update = (input[1] + hidden[1]).sigmoid();
  const Tensor candidate = (input[2] + (input[0] + hidden[0]).sigmoid() * hidden[2]).tanh();
  return {(hx - candidate) * update + candidate, input_gates.new_empty({0})};
}

Tensor quantized_copy_from(const Tensor& source, const Tensor& target, bool) {
  const Tensor host = index_of(source) == TD_HOST ? source : quantized_to_host(source);
  if (index_of(target) == TD_HOST) {
    target.copy_(host);
  } else if (target.is_contiguous()) {
    span_to_device(host.contiguous(), target, false);
  } else {
    Tensor around = quantized_to_host(target);
    around.copy_(host);
    span_to_device(around, target, false);
  }
  return target;
}

// --- the fallback ---

// Lends the state of a device generator to the CPU kernel for the time of one call.
class RandomLoan {
 public:
  RandomLoan(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const size_t begin = stack->size() - arguments.size();
    c10::DeviceIndex device = -1;
    optional<size_t> slot;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue& value = (*stack)[begin + i];
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone() && device < 0) {
        device = static_cast<c10::DeviceIndex>(value.toTensor().get_device());
      }
      if (value.isGenerator()) lender_ = value.toGenerator();
      const c10::Type& type = *arguments[i].type();
      if (type.kind() == c10::TypeKind::GeneratorType ||
          (type.kind() == c10::TypeKind::OptionalType &&
           type.castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType)) {
        slot = begin + i;
      }
    }
    if (lender_.defined() && lender_.device().type() != kDevice) {
      lender_ = at::Generator();  // someone passed a CPU generator on purpose
      return;
    }
    const bool random = slot.has_value() || op.hasTag(at::Tag::nondeterministic_seeded);
    if (!random) return;
    if (!lender_.defined()) lender_ = default_generator(device);
    lock_ = std::unique_lock<std::mutex>(lender_.mutex());
    if (slot.has_value()) {
      borrower_ = at::detail::createCPUGenerator();
      (*stack)[*slot] = c10::IValue(borrower_);
    } else {  // the kernel will ask for the CPU's default generator, of which there is one for all devices
      static std::mutex one_at_a_time;
      turn_ = std::unique_lock<std::mutex>(one_at_a_time);
      borrower_ = at::globalContext().defaultGenerator(at::kCPU);
      std::lock_guard<std::mutex> hold(borrower_.mutex());
      former_ = borrower_.get_state();
    }
    std::lock_guard<std::mutex> hold(borrower_.mutex());
    borrower_.set_state(lender_.get_state());
  }
  ~RandomLoan() {
    if (!borrower_.defined()) return;
    std::lock_guard<std::mutex> hold(borrower_.mutex());
    lender_.set_state(borrower_.get_state());
    if (former_.defined()) borrower_.set_state(former_);
  }
  RandomLoan(const RandomLoan&) = delete;
  RandomLoan& operator=(const RandomLoan&) = delete;

 private:
  at::Generator lender_, borrower_;
  std::unique_lock<std::mutex> lock_, turn_;
  Tensor former_;
};

// The CPU has the operator, and the fallback is on.
void refuse_unless_on_the_cpu(const c10::OperatorHandle& op, c10::DispatchKey key) {
  refuse_unless_fallback(toString(op.operator_name()).c_str());
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(key), "Could not run '", op.operator_name(),
                              "' on the '", c10::get_privateuse1_backend(),
                              "' backend: it has no kernel for this operator, and the CPU has none to fall back to");
}

void quantized_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_unless_on_the_cpu(op, c10::DispatchKey::QuantizedCPU);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true, c10::DispatchKey::QuantizedCPU);
}

// What is written must be on the device: upstream's fallback would compute, and then fail to copy back by the name of an
// operator that nobody called.
void refuse_foreign_outputs(const c10::OperatorHandle& op, const torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    const c10::IValue& value = (*stack)[begin + i];
    if (alias == nullptr || !alias->isWrite() || !value.isTensor() || !value.toTensor().defined()) continue;
    TORCH_CHECK(value.toTensor().is_privateuseone(), "Expected all tensors to be on the same device, but '",
                arguments[i].name(), "' of ", op.operator_name(), " is on ", value.toTensor().device(),
                " and another one on a ", c10::get_privateuse1_backend(), " device");
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("zero_", TORCH_FN(zero_));
  m.impl("convolution_overrideable", TORCH_FN(convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolution_backward));
  m.impl("quantize_per_tensor", TORCH_FN(quantize_per_tensor));
  m.impl("_empty_affine_quantized", TORCH_FN(empty_affine_quantized));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("_empty_affine_quantized", TORCH_FN(empty_affine_quantized));
  m.impl("_copy_from", TORCH_FN(quantized_copy_from));
  m.impl("dequantize.self", TORCH_FN(dequantize));
  m.impl("int_repr", TORCH_FN(int_repr));
  m.impl("q_scale", TORCH_FN(at::native::q_scale_quant));
  m.impl("q_zero_point", TORCH_FN(at::native::q_zero_point_quant));
  m.impl("qscheme", TORCH_FN(at::native::qscheme_quant));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_qtensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("empty_like", TORCH_FN(at::native::empty_like_quantized));
  m.impl("empty_quantized", TORCH_FN(at::native::empty_quantized));
  m.impl("clone", TORCH_FN(at::native::quantized_clone));
}

// What the CPU can do with quantized tensors it does for these, too.
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&quantized_fallback>());
}

// copy_ falls through these keys and leaves the bits to the copy itself; _copy_from, which it ends in here, must do the
// same, or upstream's fallback for them clones, which copies, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

// Operators without an autograd kernel (c10d's are) pass through to the backend's, with a warning if someone
// differentiates through them. Later releases do this for PrivateUse1 as for all others; 2.6 forgot it in
// aten/src/ATen/core/VariableFallbackKernel.cpp. Asking the dispatcher says which.
const bool autograd_passes = [] {
  constexpr auto key = c10::DispatchKey::AutogradPrivateUse1;
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) return false;
  static auto* library = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  library->fallback(torch::autograd::basicAutogradNotImplementedFallback());
  return true;
}();

}  // namespace

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_unless_on_the_cpu(op, c10::DispatchKey::CPU);
  refuse_foreign_outputs(op, stack);
  RandomLoan loan(op, stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.operator_name(), "' on the '", c10::get_privateuse1_backend(),
                              "' backend: it has no kernel for this operator and does not leave it to the CPU");
}

bool set_fallback_enabled(bool enabled) { return fallback_on.exchange(enabled); }

bool is_plain(const Tensor& tensor, bool contiguous) {
  return tensor.defined() && tensor.is_privateuseone() && !tensor.is_conj() && !tensor.is_neg() &&
         (!contiguous || tensor.is_contiguous());
}

void check_one_device(const char* op, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (tensor == nullptr || !tensor->defined() || !tensor->is_privateuseone()) continue;
    if (first == nullptr) first = tensor;
    TORCH_CHECK(tensor->device() == first->device(), "Expected all tensors to be on the same device, but those of ", op,
                " are on ", first->device(), " and ", tensor->device());
  }
}

}  // namespace third_device
