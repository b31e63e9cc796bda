// Registration of the device with PyTorch: guard, allocators, generator, hooks, storage.
#include <third_device/device.h>

#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <array>
#include <cstring>
#include <mutex>
#include <vector>

// Used unless the backend has a function of that name.
#define TD_REPLACEABLE __attribute__((weak))

namespace third_device {

void release_device_memory(void* address) {
  if (c10::memoryProfilingEnabled() && address != nullptr) {
    td_memory kind{};
    int device = 0;
    if (driver().memory_owner(address, &kind, &device) == TD_OK && kind == TD_MEMORY_DEVICE) {
      const auto bytes = static_cast<int64_t>(device_memory::size(address));
      device_memory::release(address);
      MemoryStatistics now = device_memory::statistics(device);
      c10::reportMemoryUsageToProfiler(address, -bytes, now.allocated_bytes.current, now.reserved_bytes.current,
                                       device_of(device));
      return;
    }
  }
  device_memory::release(address);
}

void release_pinned_memory(void* address) { pinned_memory::release(address); }

namespace {

// A seed and an offset in its stream of numbers, as CUDA has them: 16 bytes, which DTensor reads and writes. It makes no
// numbers itself; whoever makes some reserves a place in the stream (reserve_random).
struct Generator final : c10::GeneratorImpl {
  struct Place final : c10::intrusive_ptr_target {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  static constexpr size_t kBytes = 2 * sizeof(uint64_t);

  explicit Generator(c10::DeviceIndex device, c10::intrusive_ptr<Place> place = c10::make_intrusive<Place>())
      : c10::GeneratorImpl(device_of(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        place_(std::move(place)) {}
  static c10::DeviceType device_type() { return kDevice; }

  void set_current_seed(uint64_t seed) override {
    place_->seed = seed;
    place_->offset = 0;
  }
  uint64_t current_seed() const override { return place_->seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom(/*is_cuda=*/true));
    return place_->seed;
  }
  void set_offset(uint64_t offset) override { place_->offset = offset; }
  uint64_t get_offset() const override { return place_->offset; }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({static_cast<int64_t>(kBytes)}, at::kByte);
    const std::array<uint64_t, 2> values{place_->seed, place_->offset};
    std::memcpy(state.mutable_data_ptr(), values.data(), kBytes);
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kBytes, "the state of a ", c10::get_privateuse1_backend(), " generator is ", kBytes,
                " bytes, its seed and its offset; this has ", state.numel(),
                ": it is of another device's generator, or of an older ", c10::get_privateuse1_backend(), " backend");
    std::array<uint64_t, 2> values{};
    std::memcpy(values.data(), state.data(), kBytes);
    place_->seed = values[0];
    place_->offset = values[1];
  }
  // Generators that share a place, for graphs that go back to it without a state that is read and written.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    auto* ours = dynamic_cast<Generator*>(other.get());
    TORCH_CHECK(ours != nullptr, "a generator of the ", c10::get_privateuse1_backend(), " device is needed");
    place_ = ours->place_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(device_.index(), place_);
  }
  RandomPlace reserve(uint64_t count) {
    const RandomPlace reserved{place_->seed, place_->offset};
    place_->offset += (count + 3) / 4 * 4;
    return reserved;
  }

 private:
  Generator* clone_impl() const override {
    auto place = c10::make_intrusive<Place>();
    place->seed = place_->seed;
    place->offset = place_->offset;
    return new Generator(device_.index(), std::move(place));
  }

  c10::intrusive_ptr<Place> place_;
};

}  // namespace

at::Generator make_generator(c10::DeviceIndex device) {
  int index = index_or_current(device);
  check_device(index);
  return at::make_generator<Generator>(static_cast<c10::DeviceIndex>(index));
}

TD_REPLACEABLE Guard* make_guard() { return new Guard; }
TD_REPLACEABLE Hooks* make_hooks() { return new Hooks; }
TD_REPLACEABLE DeviceAllocator* make_device_allocator() { return new DeviceAllocator; }
TD_REPLACEABLE PinnedAllocator* make_pinned_allocator() { return new PinnedAllocator; }
TD_REPLACEABLE Fallback* make_fallback() { return new Fallback; }
TD_REPLACEABLE c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::SymInt bytes, c10::DataPtr data,
                                                                 c10::Allocator* allocator, bool resizable) {
  return storage_of<Storage>(std::move(bytes), std::move(data), allocator, resizable);
}
TD_REPLACEABLE c10::intrusive_ptr<TensorMeta> read_tensor_meta(const std::string&) {
  TORCH_CHECK(false, "this tensor was saved with more than flags, and the ", c10::get_privateuse1_backend(),
              " backend cannot read that; next: load it with the backend that saved it, or define "
              "third_device::read_tensor_meta");
}

c10::intrusive_ptr<TensorMeta> TensorMeta::copy() const {
  const std::string saved = save();
  auto made = saved.empty() ? c10::make_intrusive<TensorMeta>() : read_tensor_meta(saved);
  made->flags = flags;
  return made;
}

void set_tensor_meta(const at::Tensor& tensor, c10::intrusive_ptr<TensorMeta> meta) {
  TORCH_CHECK(tensor.is_privateuseone(), "it belongs to tensors of the ", c10::get_privateuse1_backend(), " device");
  if (const auto* former = tensor_meta_as(tensor)) meta->flags.insert(former->flags.begin(), former->flags.end());
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(meta));
}

namespace {

#if TD_GENERATOR_REGISTRY
REGISTER_GENERATOR_PRIVATEUSE1(make_generator)
#endif

c10::intrusive_ptr<c10::StorageImpl> create_storage(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes,
                                                    c10::DataPtr data, c10::Allocator* allocator, bool resizable) {
  return make_storage(std::move(bytes), std::move(data), allocator, resizable);
}

const bool registered = [] {
  c10::SetAllocator(kDevice, device_allocator());
#if TD_HOST_ALLOCATOR
  at::setHostAllocator(kDevice, static_cast<PinnedAllocator*>(pinned_allocator()));
#endif
  at::RegisterPrivateUse1HooksInterface(make_hooks());
  c10::SetStorageImplCreate(kDevice, &create_storage);
  static const c10::impl::DeviceGuardImplRegistrar guard(kDevice, make_guard());
  return true;
}();

}  // namespace

c10::Allocator* device_allocator() {
  static auto* instance = make_device_allocator();
  return instance;
}

c10::Allocator* pinned_allocator() {
  static auto* instance = make_pinned_allocator();
  return instance;
}

RandomPlace reserve_random(const at::Generator& generator, uint64_t count) {
  auto* ours = dynamic_cast<Generator*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(ours != nullptr, "Expected a '", c10::get_privateuse1_backend(), "' device type for generator but found '",
              generator.device().type(), "'");
  refuse_in_capture(generator.device().index(), "random numbers, which each replay would draw alike; next: draw them before, "
                                                "into a tensor that the graph reads");
  std::lock_guard<std::mutex> hold(ours->mutex_);
  return ours->reserve(count);
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < device_count(); ++i) {
      made->push_back(make_generator(static_cast<c10::DeviceIndex>(i)));
      made->back().seed();
    }
    return made;
  }();
  int index = index_or_current(device);
  check_device(index);
  return (*generators)[static_cast<size_t>(index)];
}

TD_REPLACEABLE std::vector<std::pair<std::string, std::string>> python_functions() { return {}; }

TD_REPLACEABLE std::vector<std::pair<c10::DispatchKey, std::string>> own_operators() { return {}; }

}  // namespace third_device
