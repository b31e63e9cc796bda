// CUDA's operators for tensors of PrivateUse1: shown to the CUDA kernels as CUDA tensors of the same memory, and handed
// back as tensors of this device.
//
// Memory is held by a storage of CUDA, the twin, from CUDA's caching allocator: a storage of this device has the twin as
// the context of its data pointer. So there is one cache of device memory, an operator that resizes what it is given
// finds an allocator, and what CUDA makes becomes ours without a copy.
#include <third_device/device.h>

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace puone {
namespace {

using at::Tensor;
using c10::IValue;
using Twin = c10::intrusive_ptr<c10::StorageImpl>;
using third_device::kDevice;

c10::Device as_cuda(c10::Device ours) { return {c10::DeviceType::CUDA, ours.index()}; }

c10::cuda::CUDAStream cuda_stream(int device, third_device::StreamId id) {
  auto* native = reinterpret_cast<cudaStream_t>(third_device::native_stream(device, id));
  return c10::cuda::getStreamFromExternal(native, static_cast<c10::DeviceIndex>(device));
}

// --- memory ---

void release_storage(void* storage) { Twin::reclaim(static_cast<c10::StorageImpl*>(storage)); }

// A pointer to the memory of `storage`, which lives as long as the pointer.
c10::DataPtr point_into(Twin storage, c10::Device device) {
  void* data = storage->mutable_data();
  return {data, storage.release(), &release_storage, device};
}

Twin make_twin(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                               c10::cuda::CUDACachingAllocator::get(), /*resizable=*/true);
}

// Memory that somebody else made (DLPack, from_blob) gets a twin for one call.
Twin twin_of(const c10::Storage& ours) {
  const c10::DataPtr& data = ours.data_ptr();
  if (data.get_deleter() == &release_storage) return Twin::reclaim_copy(static_cast<c10::StorageImpl*>(data.get_context()));
  auto held = Twin::reclaim_copy(ours.unsafeGetStorageImpl());
  return make_twin(ours.nbytes(), point_into(std::move(held), as_cuda(ours.device())));
}

struct Allocator : third_device::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    third_device::ensure_init();
    const c10::Device device = third_device::device_of(third_device::current_device());
    const c10::DeviceGuard on_cuda(as_cuda(device));
    const auto index = device.index();
    const auto former = c10::cuda::getCurrentCUDAStream(index);
    c10::cuda::setCurrentCUDAStream(cuda_stream(index, third_device::current_stream(index)));
    c10::DataPtr data;
    try {
      data = c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
    } catch (...) {
      c10::cuda::setCurrentCUDAStream(former);
      throw;
    }
    c10::cuda::setCurrentCUDAStream(former);
    return point_into(make_twin(bytes, std::move(data)), device);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // a pointer is not its own context
};

struct Guard : third_device::Guard {
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get_deleter() != &release_storage) return;
    auto* twin = static_cast<c10::StorageImpl*>(data.get_context());
    c10::cuda::CUDACachingAllocator::recordStream(twin->data_ptr(), cuda_stream(stream.device_index(), stream.id()));
  }
};

// Pinned memory is CUDA's, too: its copies know when a block is free again.
struct Hooks : third_device::Hooks {
  bool isPinnedPtr(const void* address) const override { return at::detail::getCUDAHooks().isPinnedPtr(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    third_device::ensure_init();
    return at::detail::getCUDAHooks().getPinnedMemoryAllocator();
  }
};

// --- one call ---

// A tensor of ours, and the one that CUDA sees for it.
struct Argument {
  Tensor ours;
  Tensor theirs;
  c10::StorageImpl* twin;
};

Tensor make_tensor(Twin storage, c10::DispatchKey key, const Tensor& like) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(key),
                                                         like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) made._set_conj(true);
  if (like.is_neg()) made._set_neg(true);
  return made;
}

// Work that is enqueued on `later` from now on begins after what is enqueued on `earlier`.
void order_after(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
  third_device::order_after(reinterpret_cast<td_stream>(later.stream()), reinterpret_cast<td_stream>(earlier.stream()),
                            earlier.device_index());
}

class Call {
 public:
  Call() = default;
  ~Call() {
    for (const auto& former : streams_) c10::cuda::setCurrentCUDAStream(former);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Work on `device` goes to our current stream until the call ends.
  void enter(c10::DeviceIndex device) {
    for (const auto& former : streams_) {
      if (former.device_index() == device) return;
    }
    streams_.push_back(c10::cuda::getCurrentCUDAStream(device));
    c10::cuda::setCurrentCUDAStream(cuda_stream(device, third_device::current_stream(device)));
  }

  // Puts our streams and those that CUDA had in order, so that tensors of both may meet: at the start and at the end.
  void join_streams(bool at_end) {
    for (const auto& former : streams_) {
      const auto ours = c10::cuda::getCurrentCUDAStream(former.device_index());
      at_end ? order_after(former, ours) : order_after(ours, former);
    }
  }

  Tensor show(const Tensor& ours) {
    enter(ours.device().index());
    Twin twin = twin_for(ours.storage());
    c10::StorageImpl* held = twin.get();
    arguments_.push_back({ours, make_tensor(std::move(twin), c10::DispatchKey::CUDA, ours), held});
    return arguments_.back().theirs;
  }

  // A CUDA tensor that came back: what was shown for it, or a tensor of ours on the same memory.
  Tensor hand_back(const Tensor& theirs) {
    if (!theirs.defined() || !theirs.is_cuda()) return theirs;
    const c10::Device device(kDevice, theirs.device().index());
    if (theirs.layout() != c10::kStrided || theirs.is_quantized()) return theirs.cpu().to(device);
    c10::StorageImpl* held = theirs.storage().unsafeGetStorageImpl();
    Twin storage;
    const bool is_new = theirs.storage().use_count() == 1;  // all that was shown is held by ours, too
    for (const Argument& argument : is_new ? c10::ArrayRef<Argument>() : c10::ArrayRef<Argument>(arguments_)) {
      if (argument.theirs.is_same(theirs)) return argument.ours;
      if (argument.twin == held) storage = Twin::reclaim_copy(argument.ours.storage().unsafeGetStorageImpl());
    }
    if (!storage) storage = storage_of(theirs.storage(), device);
    Tensor made = make_tensor(std::move(storage), c10::DispatchKey::PrivateUse1, theirs);
    if (!is_new) arguments_.push_back({made, theirs, held});  // another output may lie on the same memory
    return made;
  }

  // Sizes and memory of what the operator changed.
  void bring_changes() {
    for (const Argument& argument : arguments_) {
      c10::TensorImpl* ours = argument.ours.unsafeGetTensorImpl();
      const Tensor& theirs = argument.theirs;
      c10::StorageImpl* storage = ours->storage().unsafeGetStorageImpl();
      if (theirs.storage().unsafeGetStorageImpl() != argument.twin) {
        ours->set_storage_keep_dtype(c10::Storage(storage_of(theirs.storage(), ours->device())));
      } else if (storage->data() != argument.twin->data() || storage->nbytes() != argument.twin->nbytes()) {
        storage->set_data_ptr_noswap(point_into(Twin::reclaim_copy(argument.twin), ours->device()));
        storage->set_nbytes(argument.twin->nbytes());
      }
      if (ours->sizes() != theirs.sizes() || ours->strides() != theirs.strides() ||
          ours->storage_offset() != theirs.storage_offset()) {
        ours->set_sizes_and_strides(theirs.sizes(), theirs.strides(), theirs.storage_offset());
      }
    }
  }

 private:
  // Memory that somebody else made has no twin of its own: tensors on it share one for the call.
  Twin twin_for(const c10::Storage& ours) const {
    if (ours.data_ptr().get_deleter() != &release_storage) {
      for (const Argument& other : arguments_) {
        if (other.ours.storage().unsafeGetStorageImpl() == ours.unsafeGetStorageImpl()) return Twin::reclaim_copy(other.twin);
      }
    }
    return twin_of(ours);
  }

  static Twin storage_of(const c10::Storage& theirs, c10::Device device) {
    return third_device::make_storage(static_cast<int64_t>(theirs.nbytes()),
                                      point_into(Twin::reclaim_copy(theirs.unsafeGetStorageImpl()), device),
                                      third_device::device_allocator(), true);
  }

  c10::SmallVector<Argument, 8> arguments_;
  c10::SmallVector<c10::cuda::CUDAStream, 2> streams_;  // that CUDA had
};

// CUDA's default generator draws from the place of one of ours, and ours goes on behind what was drawn.
class RandomLoan {
 public:
  RandomLoan(at::Generator ours, c10::DeviceIndex device)
      : turn_(turns()), ours_(std::move(ours)), theirs_(at::globalContext().defaultGenerator({c10::kCUDA, device})),
        seed_(theirs_.current_seed()), offset_(theirs_.get_offset()) {
    place(ours_.current_seed(), ours_.get_offset());
  }
  ~RandomLoan() {
    ours_.set_offset(theirs_.get_offset());
    place(seed_, offset_);
  }
  RandomLoan(const RandomLoan&) = delete;
  RandomLoan& operator=(const RandomLoan&) = delete;
  const at::Generator& borrower() const { return theirs_; }

 private:
  static std::mutex& turns() {
    static std::mutex one_at_a_time;
    return one_at_a_time;
  }
  void place(uint64_t seed, uint64_t offset) {
    theirs_.set_current_seed(seed);
    theirs_.set_offset(offset);
  }

  std::lock_guard<std::mutex> turn_;
  at::Generator ours_;
  at::Generator theirs_;
  uint64_t seed_;
  uint64_t offset_;
};

// Shows `f` a tensor, or each of a list.
template <typename F>
void visit_tensors(const IValue& value, F f) {
  if (value.isTensor()) return f(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return;
  for (const IValue& each : value.toListRef()) {
    if (each.isTensor()) f(each.toTensor());
  }
}

// Puts what `f` makes of a tensor, or of each of a list, in its place.
template <typename F>
void change_tensors(IValue& value, F f) {
  if (value.isTensor()) {
    value = f(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> made;
    for (const Tensor& tensor : value.toTensorVector()) made.push_back(f(tensor));
    value = std::move(made);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> made;
    for (const auto& tensor : value.toOptionalTensorVector()) {
      made.push_back(tensor.has_value() ? std::optional<Tensor>(f(*tensor)) : std::nullopt);
    }
    value = std::move(made);
  }
}

bool is_ours(const Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

struct Fallback : third_device::Fallback {
  // These CUDA has as it has all others, made of operators that are for CUDA alone.
  bool takes(const c10::OperatorHandle& op) const override {
    const std::string& name = op.operator_name().name;
    return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) || name == "aten::_copy_from" ||
           name == "aten::convolution" || name == "aten::convolution_backward" || name == "aten::kaiser_window";
  }

  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    const size_t begin = stack->size() - op.schema().arguments().size();
    c10::Device device(kDevice, -1);
    std::optional<at::Generator> given;
    bool is_strange = !op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA);
    bool has_cuda = false;
    for (size_t i = begin; i < stack->size(); ++i) {
      const IValue& value = (*stack)[i];
      if (value.isGenerator() && value.toGenerator().device().type() == kDevice) given = value.toGenerator();
      if (value.isDevice() && value.toDevice().type() == kDevice && device.index() < 0) device = value.toDevice();
      visit_tensors(value, [&](const Tensor& tensor) {
        if (is_ours(tensor)) {
          if (device.index() < 0) device = tensor.device();
          is_strange |= tensor.layout() != c10::kStrided || tensor.is_quantized();
        }
        has_cuda |= tensor.defined() && tensor.is_cuda();
      });
    }
    if (is_strange) return third_device::cpu_fallback(op, stack);
    if (device.index() < 0) device = third_device::device_of(third_device::current_device());
    TORCH_CHECK(!has_cuda, "Expected all tensors to be on the same device, but those of ", op.operator_name(), " are on ",
                device, " and on a cuda device");

    third_device::ensure_init();
    Call call;
    call.enter(device.index());
    std::optional<RandomLoan> loan;
    if (given.has_value() || op.hasTag(at::Tag::nondeterministic_seeded)) {
      loan.emplace(given.value_or(third_device::default_generator(device.index())), device.index());
    }
    for (size_t i = begin; i < stack->size(); ++i) {
      IValue& value = (*stack)[i];
      if (value.isGenerator() && given.has_value()) value = loan->borrower();
      if (value.isDevice() && value.toDevice().type() == kDevice) value = as_cuda(device);
      change_tensors(value, [&](const Tensor& tensor) { return is_ours(tensor) ? call.show(tensor) : tensor; });
    }
    {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      const c10::impl::ExcludeDispatchKeyGuard below_autocast(c10::autocast_dispatch_keyset);
      op.callBoxed(stack);
    }
    call.bring_changes();
    for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
      change_tensors((*stack)[i], [&](const Tensor& tensor) { return call.hand_back(tensor); });
    }
  }
};

// Copies are CUDA's: between our tensors, with its tensors, and with the host's.
Tensor copy_from(const Tensor& source, const Tensor& target, bool non_blocking) {
  third_device::ensure_init();
  Call call;
  const auto show = [&](const Tensor& tensor) { return is_ours(tensor) ? call.show(tensor) : tensor; };
  const Tensor from = show(source);
  const Tensor to = show(target);
  const bool meets_cuda = source.is_cuda() || target.is_cuda();
  for (const Tensor& each : {source, target}) {
    if (each.is_cuda()) call.enter(each.device().index());
  }
  if (meets_cuda) call.join_streams(false);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor(to).copy_(from, non_blocking);
  }
  if (meets_cuda) call.join_streams(true);
  return target;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_copy_from", TORCH_FN(copy_from)); }

}  // namespace
}  // namespace puone

namespace third_device {

DeviceAllocator* make_device_allocator() { return new puone::Allocator; }
Guard* make_guard() { return new puone::Guard; }
Hooks* make_hooks() { return new puone::Hooks; }
Fallback* make_fallback() { return new puone::Fallback; }

}  // namespace third_device
