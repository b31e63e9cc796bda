// Operators that are about memory and not about arithmetic, and the CPU fallback for all the others.
#include <third_device/compat.h>
#include <third_device/device.h>
#include <third_device/host_operators.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_copy_from_and_resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/q_per_channel_axis_native.h>
#include <ATen/ops/q_per_channel_scales_native.h>
#include <ATen/ops/q_per_channel_zero_points_native.h>
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
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "fallback.h"

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

// torch.use_deterministic_algorithms: memory that nobody has written to holds NaN or the largest number, as the CPU's does.
// Not the memory that filling itself asks for: a kernel of fill_ may make tensors.
template <typename Fill>
void fill_if_deterministic(Fill fill) {
  const auto& context = at::globalContext();
  if (C10_LIKELY(!context.deterministicAlgorithms() || !context.deterministicFillUninitializedMemory())) return;
  thread_local bool filling = false;
  if (filling) return;
  filling = true;
  const auto done = c10::make_scope_exit([] { filling = false; });
  fill();
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// A tensor of no size yet in a storage of the backend's class: at::detail::empty_generic makes plain c10::StorageImpl and
// does not ask SetStorageImplCreate's function (aten/src/ATen/EmptyTensor.cpp: _empty_generic).
Tensor with_own_storage(at::ScalarType dtype, size_t bytes) {
  c10::Allocator* allocator = device_allocator();
  if (dtype == at::kComplexHalf) at::detail::empty_generic({0}, allocator, kKeys, dtype, std::nullopt);  // it warns, once
  return at::detail::make_tensor<c10::TensorImpl>(
      make_storage(static_cast<int64_t>(bytes), allocator->allocate(bytes), allocator, true), kKeys,
      c10::scalarTypeToTypeMeta(dtype));
}

Tensor empty(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
             optional<c10::Device> device, optional<bool> pin_memory, optional<c10::MemoryFormat> format) {
  refuse_options(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  at::detail::check_size_nonnegative(size);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  Tensor made = with_own_storage(type, at::detail::computeStorageNbytesContiguous(size, c10::elementSize(type)));
  c10::TensorImpl* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous) impl->empty_tensor_restride(*format);
  fill_if_deterministic([&] { at::native::fill_empty_deterministic_(made); });
  return made;
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                     optional<c10::Device> device, optional<bool> pin_memory) {
  refuse_options(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  at::detail::check_size_nonnegative(size);
  const at::ScalarType type = c10::dtype_or_default(dtype);
  Tensor made = with_own_storage(type, at::detail::computeStorageNbytes(size, stride, c10::elementSize(type)));
  made.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  fill_if_deterministic([&] { at::native::fill_empty_deterministic_(made); });
  return made;
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
  const auto before = static_cast<int64_t>(self.storage().nbytes());
  fit_storage(self);
  fill_if_deterministic([&] { at::native::fill_resize_deterministic_(self, before); });
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
  c10::DeviceGuard guard(self.device());
  c10::Storage storage(make_storage(0, device_allocator()->allocate(0), device_allocator(), true));
  return set_storage(self, std::move(storage), 0, {0}, {});
}

void record_stream(Tensor& self, at::Stream stream) {
  c10::impl::getDeviceGuardImpl(kDevice)->recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// --- copies ---

std::atomic<int> sync_debug{0};

// Enqueues bytes on the current stream of `device`. Pinned host memory is kept until they are copied; other host memory
// must be in place when this returns, so then it waits.
void copy_bytes(void* to, int to_device, const void* from, int from_device, size_t bytes, bool non_blocking) {
  if (bytes == 0) return;
  const int device = from_device == TD_HOST ? to_device : from_device;
  const StreamId id = current_stream(device);
  const bool to_host = to_device == TD_HOST;
  const bool with_host = to_host || from_device == TD_HOST;
  // Asked before anything is enqueued: the host's memory may be gone when an error has left this function.
  if (with_host && (sync_debug.load(std::memory_order_relaxed) != 0 || is_capturing(device)) &&
      !(non_blocking && pinned_memory::contains(to_host ? to : from))) {
    refuse_in_capture(device, "a copy that waits for the device; next: pinned memory and non_blocking=True");
    before_waiting();
  }
  check(driver().copy(to, to_device, from, from_device, bytes, native_stream(device, id)), "copying");
  if (!with_host) return;
  const bool pinned = pinned_memory::record_use(to_host ? to : from, device, id);
  if (!pinned || !non_blocking) synchronize_current(device);
}

// Work enqueued after this on the current stream of `later` starts after all work so far on that of `earlier`.
void order_devices(int later, int earlier) {
  order_after(native_current_stream(later), native_current_stream(earlier), earlier);
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

// The same memory read in the same way: what x[i] += 1 copies onto itself at its end.
bool are_same_elements(const Tensor& a, const Tensor& b) {
  return a.is_privateuseone() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.dtype() == b.dtype() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

}  // namespace

void check_overlap(const Tensor& source, const Tensor& target) {
  if (!source.is_privateuseone() || !target.is_privateuseone() || are_same_elements(source, target)) return;
  at::assert_no_internal_overlap(target);
  at::assert_no_partial_overlap(target, source);
}

Tensor host::_copy_from(const Tensor& given, const Tensor& target, bool non_blocking) {
  if (target.numel() == 0 || given.is_same(target)) return target;
  if (is_elsewhere(given)) return host::_copy_from(given.cpu(), target, false);
  if (is_elsewhere(target)) {
    target.copy_(given.cpu());
    return target;
  }
  if (are_same_elements(given, target)) return target;
  check_overlap(given, target);
  const Tensor source = given.sizes() == target.sizes() ? given : given.expand(target.sizes());
  const int from = index_of(source);
  const int to = index_of(target);
  c10::DeviceGuard guard(from != TD_HOST ? source.device() : target.device());
  const bool crossing = from != TD_HOST && to != TD_HOST && from != to;
  if (same_bytes(source, target)) {
    if (crossing) order_devices(from, to);
    copy_bytes(target.data_ptr(), to, source.data_ptr(), from, target.nbytes(), non_blocking);
    if (crossing) order_devices(to, from);
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

namespace {

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  if (source.sizes() != target.sizes()) resize_(target, source.sizes(), std::nullopt);
  return host::_copy_from(source, target, false);
}

}  // namespace

at::Scalar host::_local_scalar_dense(const Tensor& self) { return span_to_host(self).item(); }

Tensor& host::zero_(Tensor& self) {
  if (self.numel() == 0) return self;
  c10::DeviceGuard guard(self.device());
  if (self.is_non_overlapping_and_dense()) {
    const int device = self.get_device();
    check(driver().memory_set(self.data_ptr(), 0, self.nbytes(), native_current_stream(device)), "filling memory");
    return self;
  }
  host::_copy_from(at::empty({}, self.options().device(at::kCPU)).zero_(), self, false);
  return self;
}

namespace {

std::atomic<bool> fallback_on{true};
constexpr const char* kNoKernel =
    "it has no kernel for this operator, or none for these operands (dtypes, contiguous, device)";

void refuse_unless_fallback(const char* op) {
  if (is_capturing(current_device())) {
    const auto reason = std::string("'") + op + "', which waits for the device on the CPU: " + kNoKernel;
    end_capture_broken(reason);
    TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op, "' on the '", c10::get_privateuse1_backend(),
                                "' backend while a graph is captured: ", kNoKernel, ", and the CPU fallback waits for "
                                "the device");
  }
  TORCH_CHECK_NOT_IMPLEMENTED(fallback_on.load(), "Could not run '", op, "' on the '", c10::get_privateuse1_backend(),
                              "' backend: ", kNoKernel, ", and the CPU fallback is switched off");
}

// --- quantized tensors: made on the CPU, kept on the device ---

// Quantized tensors of the device have their scales and zero points there, too, as CUDA's have.
c10::intrusive_ptr<at::Quantizer> quantizer_on(const c10::intrusive_ptr<at::Quantizer>& given, c10::Device device) {
  if (given->qscheme() == at::kPerTensorAffine) return given;
  const auto* channels = static_cast<const at::PerChannelAffineQuantizer*>(given.get());
  return at::make_per_channel_affine_quantizer(channels->scales().to(device), channels->zero_points().to(device),
                                               channels->axis(), given->scalar_type());
}

Tensor empty_quantized(IntArrayRef size, optional<c10::Device> device, optional<c10::MemoryFormat> format,
                       const c10::intrusive_ptr<at::Quantizer>& quantizer) {
  c10::DeviceGuard guard(device_or_current(device));
  auto options =
      at::TensorOptions().dtype(quantizer->scalar_type()).device(device_or_current(device)).memory_format(format);
  return at::new_qtensor(size, options, quantizer_on(quantizer, device_or_current(device)));
}

void check_quantized_dtype(optional<at::ScalarType> dtype) {
  TORCH_CHECK(dtype.has_value() && at::isQIntType(*dtype), "a quantized tensor needs a quantized dtype, not ",
              dtype.has_value() ? c10::toString(*dtype) : "none");
}

Tensor empty_affine_quantized(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                              optional<c10::Device> device, optional<bool> pin_memory, double scale, int64_t zero_point,
                              optional<c10::MemoryFormat> format) {
  check_quantized_dtype(dtype);
  refuse_options(layout, pin_memory);
  return empty_quantized(size, device, format, at::make_per_tensor_affine_quantizer(scale, zero_point, *dtype));
}

Tensor empty_per_channel_affine_quantized(IntArrayRef size, const Tensor& scales, const Tensor& zero_points,
                                          int64_t axis, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                                          optional<c10::Device> device, optional<bool> pin_memory,
                                          optional<c10::MemoryFormat> format) {
  check_quantized_dtype(dtype);
  refuse_options(layout, pin_memory);
  return empty_quantized(size, device, format,
                         at::make_per_channel_affine_quantizer(scales, zero_points, axis, *dtype));
}

Tensor empty_without_quantizer(IntArrayRef size, optional<at::ScalarType> dtype, optional<c10::Layout> layout,
                               optional<c10::Device> device, optional<bool> pin_memory,
                               optional<c10::MemoryFormat> format) {
  check_quantized_dtype(dtype);
  refuse_options(layout, pin_memory);
  c10::DeviceGuard guard(device_or_current(device));
  auto options = at::TensorOptions().dtype(*dtype).device(device_or_current(device)).memory_format(format);
  return at::new_qtensor(size, options, at::make_unknown_quantizer(*dtype));
}

// How many bytes there are from the first element to the last; several elements share a byte of some types.
size_t quantized_span(const Tensor& self) {
  return std::min(at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.itemsize()),
                  self.storage().nbytes() - static_cast<size_t>(self.storage_offset()) * self.itemsize());
}

// On the host with the same strides, whatever lies between the elements included.
Tensor quantized_to_host(const Tensor& self) {
  const size_t span = quantized_span(self);
  const auto quantizer = quantizer_on(self.quantizer(), c10::Device(c10::kCPU));
  const auto options = at::TensorOptions().dtype(self.scalar_type()).device(at::kCPU);
  const bool dense = self.is_non_overlapping_and_dense();
  Tensor host = at::new_qtensor(dense ? self.sizes() : IntArrayRef(static_cast<int64_t>(span / self.itemsize())), options,
                                quantizer);
  copy_bytes(host.data_ptr(), TD_HOST, self.data_ptr(), self.get_device(), span, false);
  if (!dense) return host.as_strided(self.sizes(), self.strides());
  host.unsafeGetTensorImpl()->set_sizes_and_strides(self.sizes(), self.strides());
  return host;
}

void quantized_span_to_device(const Tensor& host, const Tensor& target) {
  copy_bytes(target.data_ptr(), target.get_device(), host.data_ptr(), TD_HOST, quantized_span(target), false);
}

Tensor quantize_per_tensor(const Tensor& self, double scale, int64_t zero_point, at::ScalarType dtype) {
  Tensor host = at::quantize_per_tensor(self.cpu(), scale, zero_point, dtype).contiguous();
  Tensor made = empty_quantized(self.sizes(), self.device(), std::nullopt, host.quantizer());
  quantized_span_to_device(host, made);
  return made;
}

Tensor dequantize(const Tensor& self) { return quantized_to_host(self).dequantize().to(self.device()); }

Tensor int_repr(const Tensor& self) { return quantized_to_host(self).int_repr().to(self.device()); }

}  // namespace

// --- convolution: ATen sends unknown devices to an operator that they must override ---

Tensor host::convolution_overrideable(const Tensor& input, const Tensor& weight, const optional<Tensor>& bias,
                                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                      IntArrayRef output_padding, int64_t groups) {
  refuse_unless_fallback("aten::convolution");
  check_one_device("convolution", OperandDevices(input, weight, bias));
  const bool has_bias = bias.has_value() && bias->defined();
  return at::convolution(input.cpu(), weight.cpu(), has_bias ? optional<Tensor>(bias->cpu()) : std::nullopt, stride,
                         padding, dilation, transposed, output_padding, groups)
      .to(input.device());
}

std::tuple<Tensor, Tensor, Tensor> host::convolution_backward_overrideable(
    const Tensor& grad, const Tensor& input, const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
    IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  refuse_unless_fallback("aten::convolution_backward");
  check_one_device("convolution_backward", OperandDevices(grad, input, weight));
  std::vector<int64_t> bias_sizes{weight.size(transposed ? 1 : 0) * (transposed ? groups : 1)};
  auto made = at::convolution_backward(grad.cpu(), input.cpu(), weight.cpu(), at::IntArrayRef(bias_sizes), stride,
                                       padding, dilation, transposed, output_padding, groups, mask);
  auto back = [&](const Tensor& one) { return one.defined() ? one.to(input.device()) : one; };
  return {back(std::get<0>(made)), back(std::get<1>(made)), back(std::get<2>(made))};
}

namespace {

// --- recurrent cells: ATen sends them to fused operators that the CPU does not have (aten/src/ATen/native/RNN.cpp) ---
//
// Made of plain operators, above and below autograd, so that gradients come by themselves. The workspace that comes back
// is for the fused backward, which nothing calls then.

Tensor with_bias(const Tensor& gates, const optional<Tensor>& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> host::_thnn_fused_lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                               const Tensor& cx, const optional<Tensor>& input_bias,
                                                               const optional<Tensor>& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, -1);
  Tensor cy = gates[1].sigmoid() * cx + gates[0].sigmoid() * gates[2].tanh();
  Tensor hy = gates[3].sigmoid() * cy.tanh();
  return {hy, cy, input_gates.new_empty({0})};
}

std::tuple<Tensor, Tensor> host::_thnn_fused_gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                                      const Tensor& hx, const optional<Tensor>& input_bias,
                                                      const optional<Tensor>& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, -1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, -1);
  const Tensor update = (input[1] + hidden[1]).sigmoid();
  const Tensor candidate = (input[2] + (input[0] + hidden[0]).sigmoid() * hidden[2]).tanh();
  return {(hx - candidate) * update + candidate, input_gates.new_empty({0})};
}

// The CPU's has no argument for a generator: this is of operators that have one.
std::tuple<Tensor, Tensor> host::native_dropout(const Tensor& input, double p, optional<bool> train) {
  const auto options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, options)};
  const double keep = 1 - p;
  const Tensor mask = at::empty_like(input, options).bernoulli_(keep);
  return {input.mul(mask).mul_(keep == 0 ? 0 : 1 / keep), mask};
}

namespace {

// copy_ has given the target the quantizer of the source already, whose scales lie where the source is. Numbers that are not
// quantized become so by the target's own.
Tensor quantized_copy_from(const Tensor& source, const Tensor& target, bool) {
  TORCH_CHECK(target.is_quantized(), "a quantized tensor cannot be copied into one that is not; next: dequantize() it");
  if (!source.is_quantized()) {
    if (index_of(target) == TD_HOST) {
      target.copy_(source.cpu());
      return target;
    }
    c10::DeviceGuard guard(target.device());
    Tensor around = quantized_to_host(target);
    around.copy_(source.cpu());
    quantized_span_to_device(around, target);
    return target;
  }
  const Tensor host = index_of(source) == TD_HOST ? source : quantized_to_host(source);
  if (index_of(target) == TD_HOST) {
    at::set_quantizer_(target, host.quantizer());
    if (host.strides() == target.strides() && host.is_non_overlapping_and_dense()) {  // types smaller than a byte have no copy
      std::memcpy(target.data_ptr(), host.data_ptr(), std::min(quantized_span(host), quantized_span(target)));
    } else {
      target.copy_(host);
    }
    return target;
  }
  at::set_quantizer_(target, quantizer_on(host.quantizer(), target.device()));
  if (target.is_contiguous()) {
    quantized_span_to_device(host.contiguous(), target);
  } else {
    Tensor around = quantized_to_host(target);
    around.copy_(host);
    quantized_span_to_device(around, target);
  }
  return target;
}

// --- the fallback ---

// Philox fills the whole state of the twister: seeding it would keep 32 bits of the place, and calls would meet.
void start_at(at::CPUGeneratorImpl& generator, RandomPlace place) {
  at::Philox4_32 words(place.seed, /*subsequence=*/place.offset);
  at::mt19937_data_pod data{};
  data.seed_ = place.seed;
  data.seeded_ = true;
  data.left_ = 1;
  for (auto& word : data.state_) word = words();
  at::mt19937 engine;
  engine.set_data(data);
  generator.set_engine(engine);
  generator.set_next_float_normal_sample(std::nullopt);
  generator.set_next_double_normal_sample(std::nullopt);
}

// Gives the CPU kernel of one call the random numbers of a device generator: a place in its stream, which no other call
// gets, is what a generator of its own starts from. An operator without an argument for one draws from the CPU's default
// generator, which other threads use, too, and whose state is not ours to change.
void lend_random(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  c10::DeviceIndex device = -1;
  optional<size_t> slot;
  at::Generator lender;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = (*stack)[begin + i];
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone() && device < 0) {
      device = static_cast<c10::DeviceIndex>(value.toTensor().get_device());
    }
    if (value.isDevice() && value.toDevice().type() == kDevice && device < 0) device = value.toDevice().index();
    if (value.isGenerator()) lender = value.toGenerator();
    const c10::Type& type = *arguments[i].type();
    if (type.kind() == c10::TypeKind::GeneratorType ||
        (type.kind() == c10::TypeKind::OptionalType &&
         type.castRaw<c10::OptionalType>()->getElementType()->kind() == c10::TypeKind::GeneratorType)) {
      slot = begin + i;
    }
  }
  if (!slot.has_value()) return;
  if (lender.defined() && lender.device().type() != kDevice) return;  // someone passed a CPU generator on purpose
  at::Generator borrower = at::detail::createCPUGenerator();
  start_at(*borrower.get<at::CPUGeneratorImpl>(),
           reserve_random(lender.defined() ? lender : default_generator(device), 1));
  (*stack)[*slot] = c10::IValue(borrower);
}

// Marks an operator as running on the CPU for this thread. What the CPU made is brought to the device, which asks for
// tensors there: an operator that this needs and that itself is left to the CPU would do so without end.
class Descent {
 public:
  explicit Descent(const c10::OperatorHandle& op) {
    const bool again = std::find(path().begin(), path().end(), op) != path().end();
    TORCH_CHECK_NOT_IMPLEMENTED(!again, "Could not run '", op.operator_name(), "' on the '",
                                c10::get_privateuse1_backend(), "' backend: ", kNoKernel, ", and what the CPU makes "
                                "cannot be brought to the device without it");
    path().push_back(op);
  }
  ~Descent() { path().pop_back(); }
  Descent(const Descent&) = delete;
  Descent& operator=(const Descent&) = delete;

 private:
  static std::vector<c10::OperatorHandle>& path() {
    thread_local std::vector<c10::OperatorHandle> operators;
    return operators;
  }
};

// The CPU has the operator, and the fallback is on.
void refuse_unless_on_the_cpu(const c10::OperatorHandle& op, c10::DispatchKey key) {
  refuse_unless_fallback(toString(op.operator_name()).c_str());
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(key), "Could not run '", op.operator_name(),
                              "' on the '", c10::get_privateuse1_backend(),
                              "' backend: ", kNoKernel, ", and the CPU has none to fall back to");
}

// Made by torch.empty and its like, or the values of a sparse tensor: it has no scale, and cannot be copied to the CPU.
bool lacks_quantizer(const c10::IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() || !at::isQIntType(value.toTensor().scalar_type())) return false;
  return !value.toTensor().is_quantized() ||
         dynamic_cast<at::UnknownQuantizer*>(value.toTensor().quantizer().get()) != nullptr;
}

void refuse_without_quantizer(const c10::OperatorHandle& op, const torch::jit::Stack* stack) {
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    TORCH_CHECK_NOT_IMPLEMENTED(!lacks_quantizer(argument), "Could not run '", op.operator_name(), "' on the '",
                                c10::get_privateuse1_backend(), "' backend: the tensor has no quantizer; next: make it by ",
                                "torch.quantize_per_tensor or torch._empty_affine_quantized");
  }
}

void quantized_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back(op, stack, c10::DispatchKey::QuantizedCPU);
}

// The device of the first argument, or element of a list, that is on one of ours.
optional<c10::Device> device_among(const torch::jit::Stack* stack, size_t begin) {
  const auto ours = [](const Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); };
  for (size_t i = begin; i < stack->size(); ++i) {
    const c10::IValue& value = (*stack)[i];
    if (value.isTensor() && ours(value.toTensor())) return value.toTensor().device();
    if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorVector()) {
        if (ours(tensor)) return tensor.device();
      }
    }
  }
  return std::nullopt;
}

// Upstream's fallback leaves its results where the first tensor among the arguments is; that may be a scalar or a parameter
// on the CPU, and the result belongs to the device then as well.
void bring_results(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device) {
  const auto& returns = op.schema().returns();
  const size_t begin = stack->size() - returns.size();
  for (size_t i = 0; i < returns.size(); ++i) {
    c10::IValue& value = (*stack)[begin + i];
    if (returns[i].alias_info() != nullptr) continue;
    if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu()) {
      value = value.toTensor().to(device);
    } else if (value.isTensorList()) {
      std::vector<Tensor> made = value.toTensorVector();
      for (Tensor& tensor : made) {
        if (tensor.defined() && tensor.is_cpu()) tensor = tensor.to(device);
      }
      value = c10::IValue(c10::List<Tensor>(made));
    }
  }
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

// The CPU could compute with operands of several devices of ours. PyTorch refuses that of its own devices, and so does a
// kernel of the backend's: what a program may do does not hang on who runs an operator. One number may be elsewhere, since
// fill_ and its like read it wherever it is; an operator that is not PyTorch's says itself what it takes.
void refuse_several_devices(const c10::OperatorHandle& op, const torch::jit::Stack* stack) {
  if (op.operator_name().getNamespace() != "aten") return;
  std::vector<Tensor> operands;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor.dim() != 0) operands.push_back(tensor);
  };
  for (const c10::IValue& argument : torch::jit::last(*stack, op.schema().arguments().size())) {
    if (argument.isTensor()) add(argument.toTensor());
    if (!argument.isTensorList()) continue;
    for (const Tensor& each : argument.toTensorVector()) add(each);
  }
  check_one_device(op.schema().name().c_str() + std::strlen("aten::"), OperandDevices(operands));
}

// Operators that write to arguments which their schemas do not mark as written: upstream's fallback brings back the marked
// ones alone. Such an argument is replaced by a copy on the CPU, which that fallback passes on as it is.
class UnmarkedWrites {
 public:
  UnmarkedWrites(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const std::string& name = op.operator_name().name;
    if (name != "aten::native_batch_norm" && name != "aten::batch_norm_update_stats") return;
    const auto& arguments = op.schema().arguments();
    const size_t begin = stack->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name() == "training" && !(*stack)[begin + i].toBool()) return;  // then it only reads them
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      c10::IValue& value = (*stack)[begin + i];
      if (arguments[i].name() != "running_mean" && arguments[i].name() != "running_var") continue;
      if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_privateuseone()) continue;
      written_.emplace_back(value.toTensor(), value.toTensor().cpu());
      value = written_.back().second;
    }
  }
  // As upstream's fallback does with those that are marked.
  void copy_back() const {
    for (const auto& [ours, host] : written_) at::_copy_from_and_resize(host, ours);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> written_;
};

bool is_plain(const Tensor& tensor) {
  const bool known = tensor.is_cpu() || tensor.is_cuda() || tensor.is_privateuseone();
  return known && tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense));
}

// Whether one tensor may become the other and stay the same object, as parameters do when a module is moved. ATen's own
// answer has a list of devices without this one; it says so and leaves the operator to backends with plain tensors.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  return self.key_set() == from.key_set() || (is_plain(self) && is_plain(from));
}

// nn.TransformerEncoder asks before it makes a nested tensor of a batch; without any (layouts.cpp) it keeps the padding.
bool may_be_nested(const Tensor&, const Tensor&) { return false; }

const Fallback& fallback() {
  static const Fallback* instance = make_fallback();
  return *instance;
}

void run_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fallback().run(op, stack); }

}  // namespace

bool host::computes(const char* op) {
  const auto found = c10::Dispatcher::singleton().findSchema({std::string("aten::") + op, ""});
  return !found.has_value() || !fallback().takes(*found);
}

namespace {

// Registers what the layer computes on the host. A kernel of the backend's is below autograd, where PyTorch looks for it
// with the gradient that it has of the operator: then there is none of ours above, either.
template <typename Kernel>
void add_host_kernel(LayerOperators& ours, const char* name, Kernel kernel) {
  if (host::computes(name) && !ours.has_own(c10::DispatchKey::PrivateUse1, name)) ours.impl(name, kernel);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::PrivateUse1);
  ours.impl("empty.memory_format", TORCH_FN(empty));
  ours.impl("empty_strided", TORCH_FN(empty_strided));
  ours.impl("resize_", TORCH_FN(resize_));
  ours.impl("set_", TORCH_FN(set_nothing));
  ours.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  ours.impl("set_.source_Storage", TORCH_FN(set_whole_storage));
  ours.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  ours.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  ours.impl("view", TORCH_FN(at::native::view));
  ours.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  ours.impl("unfold", TORCH_FN(at::native::unfold));
  ours.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  ours.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  ours.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  ours.impl("record_stream", TORCH_FN(record_stream));
  ours.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  ours.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(may_be_nested));
  add_host_kernel(ours, "_copy_from", TORCH_FN(host::_copy_from));
  ours.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  add_host_kernel(ours, "_local_scalar_dense", TORCH_FN(host::_local_scalar_dense));
  add_host_kernel(ours, "zero_", TORCH_FN(host::zero_));
  add_host_kernel(ours, "convolution_overrideable", TORCH_FN(host::convolution_overrideable));
  add_host_kernel(ours, "convolution_backward_overrideable", TORCH_FN(host::convolution_backward_overrideable));
  ours.impl("quantize_per_tensor", TORCH_FN(quantize_per_tensor));
  ours.impl("_empty_affine_quantized", TORCH_FN(empty_affine_quantized));
  ours.impl("_empty_per_channel_affine_quantized", TORCH_FN(empty_per_channel_affine_quantized));
  add_host_kernel(ours, "_thnn_fused_lstm_cell", TORCH_FN(host::_thnn_fused_lstm_cell));
  add_host_kernel(ours, "_thnn_fused_gru_cell", TORCH_FN(host::_thnn_fused_gru_cell));
  add_host_kernel(ours, "native_dropout", TORCH_FN(host::native_dropout));
  // ATen has these for every device, by a DispatchStub that only its own have.
  for (const char* name : {"kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"}) {
    ours.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_fallback>());
  }
  // These, too, by a DispatchStub or a list of devices: torch.load asks them about the sparse tensors that it has made.
  for (const char* layout : {"coo", "compressed", "csr", "csc", "bsr", "bsc"}) {
    const auto name = std::string("_validate_sparse_") + layout + "_tensor_args";
    ours.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_fallback>());
  }
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::AutogradPrivateUse1);
  // Before a subclass of Tensor is asked, as upstream's composite kernel is: DTensor knows no such operator.
  ours.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  add_host_kernel(ours, "_thnn_fused_lstm_cell", TORCH_FN(host::_thnn_fused_lstm_cell));
  add_host_kernel(ours, "_thnn_fused_gru_cell", TORCH_FN(host::_thnn_fused_gru_cell));
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  LayerOperators ours(m, c10::DispatchKey::QuantizedPrivateUse1);
  ours.impl("empty.memory_format", TORCH_FN(empty_without_quantizer));
  ours.impl("_empty_affine_quantized", TORCH_FN(empty_affine_quantized));
  ours.impl("_empty_per_channel_affine_quantized", TORCH_FN(empty_per_channel_affine_quantized));
  ours.impl("_copy_from", TORCH_FN(quantized_copy_from));
  ours.impl("dequantize.self", TORCH_FN(dequantize));
  ours.impl("int_repr", TORCH_FN(int_repr));
  ours.impl("q_scale", TORCH_FN(at::native::q_scale_quant));
  ours.impl("q_zero_point", TORCH_FN(at::native::q_zero_point_quant));
  ours.impl("q_per_channel_scales", TORCH_FN(at::native::q_per_channel_scales));
  ours.impl("q_per_channel_zero_points", TORCH_FN(at::native::q_per_channel_zero_points));
  ours.impl("q_per_channel_axis", TORCH_FN(at::native::q_per_channel_axis));
  ours.impl("qscheme", TORCH_FN(at::native::qscheme_quant));
  ours.impl("as_strided", TORCH_FN(at::native::as_strided_qtensorimpl));
  ours.impl("view", TORCH_FN(at::native::view));
  ours.impl("empty_like", TORCH_FN(at::native::empty_like_quantized));
  ours.impl("empty_quantized", TORCH_FN(at::native::empty_quantized));
  ours.impl("clone", TORCH_FN(at::native::quantized_clone));
}

// What the CPU can do with quantized tensors it does for these, too (complete_fallbacks).
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&quantized_fallback>());
}

torch::CppFunction fallback_of(c10::DispatchKey key) {
  if (key == c10::DispatchKey::QuantizedPrivateUse1) {
    return torch::CppFunction::makeFromBoxedFunction<&quantized_fallback>();
  }
  if (key == c10::DispatchKey::SparsePrivateUse1) return torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>();
  return torch::CppFunction::makeFromBoxedFunction<&sparse_compressed_fallback>();
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

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey cpu_key) {
  refuse_unless_on_the_cpu(op, cpu_key);
  refuse_without_quantizer(op, stack);
  refuse_foreign_outputs(op, stack);
  refuse_several_devices(op, stack);
  Descent descent(op);
  lend_random(op, stack);
  const optional<c10::Device> device = device_among(stack, stack->size() - op.schema().arguments().size());
  const UnmarkedWrites unmarked(op, stack);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true, cpu_key);
  unmarked.copy_back();
  if (device.has_value()) bring_results(op, stack, *device);
}

void cpu_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back(op, stack, c10::DispatchKey::CPU);
}

void complete_fallbacks() {
  using c10::DispatchKey;
  auto& dispatcher = c10::Dispatcher::singleton();
  static std::vector<std::unique_ptr<torch::Library>> libraries;
  if (!libraries.empty()) return;
  const std::array<std::pair<DispatchKey, DispatchKey>, 3> kinds{{
      {DispatchKey::QuantizedCPU, DispatchKey::QuantizedPrivateUse1},
      {DispatchKey::SparseCPU, DispatchKey::SparsePrivateUse1},
      {DispatchKey::SparseCsrCPU, DispatchKey::SparseCsrPrivateUse1},
  }};
  for (const auto& [theirs, ours] : kinds) {
    libraries.push_back(std::make_unique<torch::Library>(torch::Library::IMPL, "aten", ours, __FILE__, __LINE__));
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findSchema(name);
      if (name.getNamespace() != "aten" || !op.has_value()) continue;
      if (!op->hasKernelForDispatchKey(theirs) || op->hasKernelForDispatchKey(ours)) continue;
      libraries.back()->impl(toString(name).c_str(), fallback_of(ours));
    }
  }
  libraries.push_back(
      std::make_unique<torch::Library>(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__));
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (name.getNamespace() != "aten" || !op.has_value() || !fallback().takes(*op)) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;  // about memory, or the backend's own
    libraries.back()->impl(toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run_fallback>());
  }
}

void refuse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "Could not run '", op.operator_name(), "' on the '", c10::get_privateuse1_backend(),
                              "' backend: it has no kernel for this operator and does not leave it to the CPU");
}

bool set_fallback_enabled(bool enabled) { return fallback_on.exchange(enabled); }

void set_sync_debug_mode(int mode) noexcept { sync_debug.store(mode, std::memory_order_relaxed); }
int sync_debug_mode() noexcept { return sync_debug.load(std::memory_order_relaxed); }

void before_waiting() {
  const int mode = sync_debug_mode();
  TORCH_CHECK(mode != 2, "an operator waits for the ", c10::get_privateuse1_backend(), " device");
  if (mode == 1) TORCH_WARN("an operator waits for the ", c10::get_privateuse1_backend(), " device");
}

bool is_plain(const Tensor& tensor, bool contiguous) {
  return tensor.defined() && tensor.is_privateuseone() && !tensor.is_conj() && !tensor.is_neg() &&
         (!contiguous || tensor.is_contiguous());
}

void check_one_device(const char* op, const OperandDevices& devices) {
  if (devices.are_one()) return;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but those of ", op, " are on ", devices.first(),
              " and ", devices.other());
}

}  // namespace third_device
