// The device as PyTorch sees it: the layer's classes, and the functions by which a backend puts its own in their place.
//
// Each make_...() below has a definition in the layer that gives the layer's class. A backend that defines the same
// function in its sources (csrc/extensions.cpp) is asked instead: the linker prefers its definition, whatever the order
// of the files. They are called while libtorch_<name>.so is loaded, so they may use no other static object.
#pragma once

#include <third_device/backend.h>
#include <third_device/compat.h>

#include <ATen/core/Generator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#if TD_HOST_ALLOCATOR
#include <ATen/core/CachingHostAllocator.h>
#endif
#if TD_DEVICE_ALLOCATOR
#include <c10/core/CachingDeviceAllocator.h>
#endif

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace third_device {

inline c10::Device device_of(int index) { return {kDevice, static_cast<c10::DeviceIndex>(index)}; }

inline c10::Stream stream_of(int device, StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device_of(device), id); }

inline int index_or_current(c10::DeviceIndex index) { return index < 0 ? current_device() : index; }

inline td_event as_event(void* event) { return static_cast<td_event>(event); }

struct Guard : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  c10::Device exchangeDevice(c10::Device device) const override { return device_of(exchange_device(device.index())); }
  c10::Device getDevice() const override { return device_of(current_device()); }
  void setDevice(c10::Device device) const override { set_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { unchecked_set_device(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }

  c10::Stream getStream(c10::Device device) const noexcept override {
    int index = index_or_current(device.index());
    return stream_of(index, current_stream(index));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream_of(index_or_current(device.index()), kDefaultStream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    int index = index_or_current(device.index());
    return stream_of(index, stream_from_pool(index, priority));
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override {
    int index = stream.device_index();
    return stream_of(index, exchange_stream(index, stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const TD_SINCE(2.10) { return native(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    td_status status = driver().stream_query(native(stream));
    if (status != TD_NOT_READY) check(status, "querying a stream");
    return status == TD_OK;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    tell(Happening::kStreamSynchronization, native(stream));
    check(driver().stream_synchronize(native(stream)), "waiting for a stream");
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { synchronize_device(index_or_current(device)); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(device == -1 || device == stream.device_index(), "Event device index ", static_cast<int>(device),
                " does not match recording stream's device index ", static_cast<int>(stream.device_index()), ".");
    td_event made = as_event(*event);
    if (made == nullptr) {
      ensure_init();
      int timing = flag == c10::EventFlag::BACKEND_DEFAULT ? 1 : 0;
      check(driver().event_create(stream.device_index(), timing, &made), "making an event");
      *event = made;
      tell(Happening::kEventCreation, made);
    }
    check(driver().event_record(made, native(stream)), "recording an event");
    tell(Happening::kEventRecord, made, native(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    check(driver().stream_wait(native(stream), as_event(event)), "waiting on an event");
    note_wait(stream.device_index(), stream.id());
    tell(Happening::kEventWait, event, native(stream));
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    td_status status = driver().event_query(as_event(event));
    if (status != TD_NOT_READY) check(status, "querying an event");
    return status == TD_OK;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    tell(Happening::kEventSynchronization, event);
    check(driver().event_synchronize(as_event(event)), "waiting for an event");
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "Both events must be recorded before calculating elapsed time.");
    double milliseconds = 0;
    check(driver().event_elapsed(as_event(start), as_event(end), &milliseconds), "timing between events");
    return milliseconds;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event == nullptr) return;
    tell(Happening::kEventDeletion, event);
    driver().event_destroy(as_event(event));
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_memory::record_use(data.get_context(), stream.device_index(), stream.id());
  }

 private:
  static td_stream native(const c10::Stream& stream) { return native_stream(stream.device_index(), stream.id()); }
};

void release_device_memory(void* address);

#if TD_DEVICE_ALLOCATOR
inline c10::CachingAllocator::Stat stat_of(const Gauge& gauge) {
  c10::CachingAllocator::Stat made;
  made.current = gauge.current;
  made.peak = gauge.peak;
  made.allocated = gauge.added;
  made.freed = gauge.removed;
  return made;
}
using AllocatorBase = c10::DeviceAllocator;
#else
using AllocatorBase = c10::Allocator;
#endif

struct DeviceAllocator : AllocatorBase {
  c10::DataPtr allocate(size_t bytes) override {
    const int device = current_device();
    void* address = nullptr;
    try {
      address = device_memory::allocate(device, bytes);
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, c10::get_privateuse1_backend(), " ", error.what());
    }
    if (c10::memoryProfilingEnabled() && address != nullptr) {
      MemoryStatistics now = device_memory::statistics(device);
      c10::reportMemoryUsageToProfiler(address, static_cast<int64_t>(device_memory::size(address)),
                                       now.allocated_bytes.current, now.reserved_bytes.current, device_of(device));
    }
    return {address, address, &release_device_memory, device_of(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_device_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    int device = current_device();
    check(driver().copy(to, device, from, device, bytes, native_current_stream(device)), "copying device memory");
  }
#if TD_DEVICE_ALLOCATOR
  bool initialized() override { return is_initialized(); }
  void emptyCache(c10::MempoolId_t) override { device_memory::empty_cache(); }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    device_memory::record_use(data.get_context(), stream.device_index(), stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    MemoryStatistics now = device_memory::statistics(index_or_current(device));
    c10::CachingDeviceAllocator::DeviceStats made;
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    made.allocation[kAll] = stat_of(now.allocations);
    made.segment[kAll] = stat_of(now.segments);
    made.allocated_bytes[kAll] = stat_of(now.allocated_bytes);
    made.reserved_bytes[kAll] = stat_of(now.reserved_bytes);
    made.active_bytes[kAll] = stat_of(now.active_bytes);
    made.requested_bytes[kAll] = stat_of(now.requested_bytes);
    made.num_alloc_retries = now.retries;
    made.num_ooms = now.out_of_memory;
    made.num_device_alloc = now.driver_allocations;
    made.num_device_free = now.driver_frees;
    return made;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    device_memory::reset_accumulated(index_or_current(device));
  }
  void resetPeakStats(c10::DeviceIndex device) override { device_memory::reset_peak(index_or_current(device)); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) TD_SINCE(2.10) {
    size_t available = 0;
    size_t total = 0;
    ensure_init();
    check(driver().memory_info(index_or_current(device), &available, &total), "asking for memory");
    return {available, total};
  }
#endif
};

void release_pinned_memory(void* address);

#if TD_HOST_ALLOCATOR
using HostAllocatorBase = at::HostAllocator;
#else
using HostAllocatorBase = c10::Allocator;
#endif

struct PinnedAllocator : HostAllocatorBase {
  c10::DataPtr allocate(size_t bytes) override {
    void* address = nullptr;
    try {
      address = pinned_memory::allocate(bytes);
    } catch (const OutOfMemory& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, c10::get_privateuse1_backend(), " ", error.what());
    }
    return {address, address, &release_pinned_memory, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_pinned_memory; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
#if TD_HOST_ALLOCATOR
  bool record_event(void* address, void*, c10::Stream stream) override {
    return pinned_memory::record_use(address, stream.device_index(), stream.id());
  }
  void empty_cache() override { pinned_memory::empty_cache(); }
  at::HostStats get_stats() override {
    MemoryStatistics now = pinned_memory::statistics();
    at::HostStats made;
    const auto fill = [](auto& stat, const Gauge& gauge) {
      stat.current = gauge.current;
      stat.peak = gauge.peak;
      stat.allocated = gauge.added;
      stat.freed = gauge.removed;
    };
    fill(made.allocated_bytes, now.reserved_bytes);
    fill(made.allocations, now.segments);
    made.num_host_alloc = now.driver_allocations;
    made.num_host_free = now.driver_frees;
    return made;
  }
  void reset_accumulated_stats() override { pinned_memory::reset_accumulated(); }
  void reset_peak_stats() override { pinned_memory::reset_peak(); }
#endif
};

at::Generator make_generator(c10::DeviceIndex device);

struct Hooks : at::PrivateUse1HooksInterface {
  void init() const override { ensure_init(); }
  bool isBuilt() const TD_SINCE(2.7) { return true; }
  bool isAvailable() const TD_SINCE(2.7) { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return is_initialized(); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return static_cast<c10::DeviceIndex>(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return static_cast<c10::DeviceIndex>(exchange_device(device));
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }
  bool isPinnedPtr(const void* address) const override { return pinned_memory::contains(address); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* address) const override {
    td_memory kind{};
    int device = 0;
    check(driver().memory_owner(address, &kind, &device), "asking whose memory it is");
    TORCH_CHECK(kind == TD_MEMORY_DEVICE, "The specified pointer resides on host memory and is not registered with any ",
                c10::get_privateuse1_backend(), " device.");
    return device_of(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return make_generator(device); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    c10::DeviceGuard guard(storage.device());
    c10::DataPtr data = device_allocator()->allocate(bytes);
    size_t kept = std::min(bytes, impl->nbytes());
    if (kept > 0) device_allocator()->copy_data(data.mutable_get(), impl->data(), kept);
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_nbytes(bytes);
  }
};

// A storage; a backend derives its own to remember something of each.
struct Storage : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
};

// The storage as the class that it was made of, or null: it is another device's.
template <typename Own>
Own* storage_as(const c10::Storage& storage) {
  return dynamic_cast<Own*>(storage.unsafeGetStorageImpl());
}

template <typename Own>
c10::intrusive_ptr<c10::StorageImpl> storage_of(c10::SymInt bytes, c10::DataPtr data, c10::Allocator* allocator,
                                                bool resizable) {
  constexpr c10::StorageImpl::use_byte_size_t kBytes;
  if (data == nullptr) return c10::make_intrusive<Own>(kBytes, std::move(bytes), allocator, resizable);
  return c10::make_intrusive<Own>(kBytes, std::move(bytes), std::move(data), allocator, resizable);
}

// What is remembered of a tensor beside its bytes: named flags, and what a derived class of the backend adds, which
// goes through save() and read_tensor_meta() with torch.save, detach() and its like, and torch.load.
struct TD_API TensorMeta : c10::BackendMeta {
  std::unordered_map<std::string, bool> flags;
  // Any bytes; none if there is nothing beside the flags.
  virtual std::string save() const { return {}; }
  c10::intrusive_ptr<TensorMeta> copy() const;
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return copy();
  }
};

// Null where nothing is remembered, or it is of another class.
template <typename Own = TensorMeta>
Own* tensor_meta_as(const at::Tensor& tensor) {
  return dynamic_cast<Own*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
}

// Runs the operators that the backend has no kernel for; the layer's leaves them to the CPU.
struct Fallback {
  virtual ~Fallback() = default;
  virtual void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const { cpu_fallback(op, stack); }
  // Whether it also runs an operator that PyTorch would compose of others, or that the layer computes on the host: copies
  // between strides or types, convolutions, recurrent cells.
  virtual bool takes(const c10::OperatorHandle&) const { return false; }
};

// Gives a tensor of the device what is to be remembered; the flags that it has stay.
TD_API void set_tensor_meta(const at::Tensor& tensor, c10::intrusive_ptr<TensorMeta> meta);

// --- what a backend may define ---

Guard* make_guard();
Hooks* make_hooks();
DeviceAllocator* make_device_allocator();
PinnedAllocator* make_pinned_allocator();
Fallback* make_fallback();
// `storage_of<Own>(...)` of a class derived from Storage.
c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::SymInt bytes, c10::DataPtr data, c10::Allocator* allocator,
                                                  bool resizable);
// From what save() of the backend's class gave. Raises where that cannot be read.
TD_API c10::intrusive_ptr<TensorMeta> read_tensor_meta(const std::string& saved);

}  // namespace third_device
