// What torch_sim adds to the layer's own classes: a function defined here is asked instead of the layer's, and only
// what it has of its own has to be written (third_device/device.h, third_device/host_staged.h). This begins with a small
// example of each; delete those that you do not need, or the whole file.
#include <third_device/device.h>
#include <third_device/host_staged.h>

#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace sim {
namespace {

std::atomic<int64_t> largest_request{0};
std::atomic<int64_t> waits{0};
std::atomic<int64_t> reductions{0};
std::atomic<int64_t> left{0};

// A field of every storage, and the hook that counts in it.
struct Storage : third_device::Storage {
  using third_device::Storage::Storage;
  int64_t resized = 0;
};

struct Hooks : third_device::Hooks {
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    third_device::Hooks::resizePrivateUse1Bytes(storage, bytes);
    if (auto* ours = third_device::storage_as<Storage>(storage)) ++ours->resized;  // others: c10's own, e.g. of a wrapper
  }
};

struct Guard : third_device::Guard {
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    ++waits;
    third_device::Guard::synchronizeDevice(device);
  }
};

struct Allocator : third_device::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    largest_request = std::max(largest_request.load(), static_cast<int64_t>(bytes));
    return third_device::DeviceAllocator::allocate(bytes);
  }
};

// Who runs an operator that has no kernel: the CPU, and this counts them. run() may leave some to it and do others itself.
struct Fallback : third_device::Fallback {
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) const override {
    ++left;
    third_device::Fallback::run(op, stack);
  }
};

// What is remembered of a tensor: the tiles in which the device keeps it. Saved and loaded with it.
struct Tiling : third_device::TensorMeta {
  int64_t shape[2] = {0, 0};
  std::string save() const override { return {reinterpret_cast<const char*>(shape), sizeof(shape)}; }
};

// Collectives of its own, where it has a library for them; the others go through the host.
struct Collectives : third_device::HostStaged {
  using third_device::HostStaged::HostStaged;
  const std::string getBackendName() const override { return "sim_ccl"; }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    ++reductions;
    return third_device::HostStaged::allreduce(tensors, options);
  }
};

// Operators for the functions of torch_sim/functions.py.
TORCH_LIBRARY_FRAGMENT(sim, m) {
  m.def("times_resized(Tensor self) -> int", [](const at::Tensor& self) {
    const auto* ours = third_device::storage_as<Storage>(self.storage());
    return ours == nullptr ? int64_t{0} : ours->resized;
  });
  m.def("largest_request() -> int", [] { return largest_request.load(); });
  m.def("waits() -> int", [] { return waits.load(); });
  m.def("reductions() -> int", [] { return reductions.load(); });
  m.def("left_to_cpu() -> int", [] { return left.load(); });
  m.def("set_tiling(Tensor self, int rows, int columns) -> ()", [](const at::Tensor& self, int64_t rows, int64_t columns) {
    auto made = c10::make_intrusive<Tiling>();
    made->shape[0] = rows;
    made->shape[1] = columns;
    third_device::set_tensor_meta(self, std::move(made));
  });
  m.def("tiling(Tensor self) -> int[]", [](const at::Tensor& self) {
    const auto* ours = third_device::tensor_meta_as<Tiling>(self);
    return ours == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(ours->shape, ours->shape + 2);
  });
}

}  // namespace
}  // namespace sim

namespace third_device {

Guard* make_guard() { return new sim::Guard; }
Hooks* make_hooks() { return new sim::Hooks; }
DeviceAllocator* make_device_allocator() { return new sim::Allocator; }
Fallback* make_fallback() { return new sim::Fallback; }

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::SymInt bytes, c10::DataPtr data, c10::Allocator* allocator,
                                                  bool resizable) {
  return storage_of<sim::Storage>(std::move(bytes), std::move(data), allocator, resizable);
}

c10::intrusive_ptr<TensorMeta> read_tensor_meta(const std::string& saved) {
  auto made = c10::make_intrusive<sim::Tiling>();
  TORCH_CHECK(saved.size() == sizeof(made->shape), "a tiling is ", sizeof(made->shape), " bytes, not ", saved.size());
  std::memcpy(made->shape, saved.data(), saved.size());
  return made;
}

std::vector<Collectives> own_collectives() {
  return {{"sim_ccl", [](const GroupOptions& options) -> c10::intrusive_ptr<c10d::Backend> {
             return c10::make_intrusive<sim::Collectives>(options.host);
           }}};
}

}  // namespace third_device
