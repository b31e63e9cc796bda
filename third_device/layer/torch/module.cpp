// The Python extension `_C` of a backend: what the layer's Python half is written on. Built against libtorch_<name>.so
// and the headers that the backend installs, as anybody's extension of the backend is.
#include <third_device/device.h>
#include <third_device/distributed.h>

#include <ATen/core/TensorBody.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/TensorImpl.h>
// 2.6 keeps the registry of BackendMeta serialization in a static of an inline function of this header: with hidden
// visibility we would register in a copy of our own.
#pragma GCC visibility push(default)
#include <torch/csrc/jit/serialization/pickler.h>
#pragma GCC visibility pop
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <chrono>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace py = pybind11;

namespace third_device {

void define_python_driver(py::module_& module);  // python_driver.cpp

namespace {

// PyTorch stores named flags and nothing else: what a backend's own class saved is in the name of one, as hexadecimal
// digits.
constexpr const char* kSaved = "third_device.meta:";

std::string to_digits(const std::string& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string made;
  for (const unsigned char byte : bytes) {
    made += digits[byte >> 4];
    made += digits[byte & 15];
  }
  return made;
}

std::string from_digits(const std::string& digits) {
  std::string made;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) made += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return made;
}

void set_flags(const at::Tensor& tensor, std::unordered_map<std::string, bool> values) {
  const auto* former = tensor_meta_as(tensor);
  auto made = former == nullptr ? c10::make_intrusive<TensorMeta>() : former->copy();
  made->flags = std::move(values);
  TORCH_CHECK(tensor.is_privateuseone(), "flags belong to tensors of the ", c10::get_privateuse1_backend(), " device");
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(made));
}

void meta_to_save(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  const auto* meta = tensor_meta_as(tensor);
  if (meta == nullptr) return;
  saved.insert(meta->flags.begin(), meta->flags.end());
  const std::string more = meta->save();
  if (!more.empty()) saved[kSaved + to_digits(more)] = true;
}

void meta_from_saved(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  // Called for every key that PyTorch keeps itself, too (conj, neg); those are not ours.
  std::unordered_map<std::string, bool> own;
  for (const auto& [key, value] : saved) {
    const std::string prefix = kSaved;
    if (key.compare(0, prefix.size(), prefix) == 0) {
      set_tensor_meta(tensor, read_tensor_meta(from_digits(key.substr(prefix.size()))));
    } else if (key != "conj" && key != "neg") {
      own[key] = value;
    }
  }
  if (!own.empty()) set_flags(tensor, std::move(own));
}

py::dict gauge(const Gauge& from) {
  py::dict made;
  made["current"] = from.current;
  made["peak"] = from.peak;
  made["allocated"] = from.added;
  made["freed"] = from.removed;
  return made;
}

py::dict statistics(const MemoryStatistics& from) {
  py::dict made;
  made["allocation"] = gauge(from.allocations);
  made["segment"] = gauge(from.segments);
  made["allocated_bytes"] = gauge(from.allocated_bytes);
  made["active_bytes"] = gauge(from.active_bytes);
  made["reserved_bytes"] = gauge(from.reserved_bytes);
  made["requested_bytes"] = gauge(from.requested_bytes);
  made["num_alloc_retries"] = from.retries;
  made["num_ooms"] = from.out_of_memory;
  made["num_device_alloc"] = from.driver_allocations;
  made["num_device_free"] = from.driver_frees;
  return made;
}

// A pool as PyTorch names those that users make: (0, its number).
std::pair<uint64_t, uint64_t> pool_name(device_memory::PoolId pool) { return {0, pool}; }

const char* name_of(device_memory::BlockState state) {
  switch (state) {
    case device_memory::BlockState::kAllocated: return "active_allocated";
    case device_memory::BlockState::kPendingFree: return "active_pending_free";
    case device_memory::BlockState::kInactive: break;
  }
  return "inactive";
}

// The segments of a device with the keys of torch.cuda.memory_snapshot (torch/cuda/memory.py: _snapshot).
py::list memory_snapshot(int device) {
  py::list segments;
  for (const auto& segment : device_memory::snapshot(device)) {
    size_t allocated = 0, active = 0, requested = 0;
    py::list blocks;
    for (const auto& block : segment.blocks) {
      if (block.state == device_memory::BlockState::kAllocated) allocated += block.size;
      if (block.state != device_memory::BlockState::kInactive) active += block.size;
      requested += block.requested;
      py::dict made;
      made["address"] = reinterpret_cast<uintptr_t>(block.address);
      made["size"] = block.size;
      made["requested_size"] = block.requested;
      made["state"] = name_of(block.state);
      made["frames"] = py::list();
      blocks.append(made);
    }
    py::dict made;
    made["device"] = device;
    made["address"] = reinterpret_cast<uintptr_t>(segment.address);
    made["total_size"] = segment.size;
    made["allocated_size"] = allocated;
    made["active_size"] = active;
    made["requested_size"] = requested;
    made["stream"] = segment.stream;
    made["segment_type"] = segment.small ? "small" : "large";
    made["segment_pool_id"] = pool_name(segment.pool);
    made["is_expandable"] = false;
    made["frames"] = py::list();
    made["blocks"] = blocks;
    segments.append(made);
  }
  return segments;
}

py::list memory_history(int device) {
  py::list entries;
  for (const auto& entry : device_memory::history(device)) {
    py::dict made;
    made["action"] = entry.action;
    if (entry.address == nullptr) {
      made["device_free"] = entry.available;
    } else {
      made["addr"] = reinterpret_cast<uintptr_t>(entry.address);
    }
    made["size"] = entry.size;
    made["stream"] = entry.stream;
    made["pool_id"] = pool_name(entry.pool);
    made["time_us"] = entry.time;
    made["frames"] = py::list();
    entries.append(made);
  }
  return entries;
}

// `bytes` from PyTorch's allocator of the device, on a stream of it.
uintptr_t raw_allocate(int device, StreamId stream, size_t bytes) {
  const c10::DeviceGuard guard(device_of(device));
  struct OnStream {
    int device;
    StreamId before;
    ~OnStream() { exchange_stream(device, before); }
  } on_stream{device, exchange_stream(device, stream)};
  return reinterpret_cast<uintptr_t>(device_allocator()->raw_allocate(bytes));
}

py::dict properties(int device) {
  td_properties found{};
  check_device(device);
  ensure_init();
  check(driver().device_properties(device, &found), "asking for properties");
  py::dict made;
  made["name"] = std::string(found.name);
  made["total_memory"] = found.total_memory;
  made["major"] = found.major;
  made["minor"] = found.minor;
  made["units"] = found.units;
  return made;
}

// Passes what the runtime tells to the trace that PyTorch has for accelerators: it calls torch.<name>._gpu_trace.
void trace(Happening happening, const void* first, const void* second) noexcept {
  const c10::impl::PyInterpreter* python = c10::impl::GPUTrace::get_trace();
  if (python == nullptr || !Py_IsInitialized()) return;
  const py::gil_scoped_acquire gil;
  const py::error_scope kept;  // an exception may be what frees a tensor: the trace would lose it
  const auto a = reinterpret_cast<uintptr_t>(first);
  const auto b = reinterpret_cast<uintptr_t>(second);
  switch (happening) {
    case Happening::kEventCreation: return (*python)->trace_gpu_event_creation(kDevice, a);
    case Happening::kEventDeletion: return (*python)->trace_gpu_event_deletion(kDevice, a);
    case Happening::kEventRecord: return (*python)->trace_gpu_event_record(kDevice, a, b);
    case Happening::kEventWait: return (*python)->trace_gpu_event_wait(kDevice, a, b);
    case Happening::kMemoryAllocation: return (*python)->trace_gpu_memory_allocation(kDevice, a);
    case Happening::kMemoryDeallocation: return (*python)->trace_gpu_memory_deallocation(kDevice, a);
    case Happening::kStreamCreation: return (*python)->trace_gpu_stream_creation(kDevice, a);
    case Happening::kDeviceSynchronization: return (*python)->trace_gpu_device_synchronization(kDevice);
    case Happening::kStreamSynchronization: return (*python)->trace_gpu_stream_synchronization(kDevice, a);
    case Happening::kEventSynchronization: return (*python)->trace_gpu_event_synchronization(kDevice, a);
  }
}

td_status sleep_on_stream(void* argument) {
  std::this_thread::sleep_for(std::chrono::milliseconds(reinterpret_cast<intptr_t>(argument)));
  return TD_OK;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
  torch::jit::TensorBackendMetaRegistry(kDevice, meta_to_save, meta_from_saved);
  complete_fallbacks();

  module.attr("built_for") = TORCH_VERSION;
  module.def("init", &ensure_init, NoGil());
  module.def("is_initialized", &is_initialized);
  module.def("is_bad_fork", &is_bad_fork);
  module.def("device_count", &device_count);
  module.def("current_device", &current_device);
  module.def("set_device", &set_device);
  module.def("exchange_device", &exchange_device);
  module.def("synchronize", &synchronize_device, NoGil());
  module.def("properties", &properties);

  module.def("current_stream", &current_stream);
  module.def("set_stream", &exchange_stream);
  module.def("native_stream", [](int device, StreamId stream) {
    return reinterpret_cast<uintptr_t>(native_stream(device, stream));
  });
  module.def("external_stream", [](int device, uintptr_t stream) {
    return external_stream(device, reinterpret_cast<td_stream>(stream));
  });
  module.def("elapsed", [](uintptr_t start, uintptr_t end) {  // milliseconds; what torch.Event.event_id gives
    double milliseconds = 0;
    check(driver().event_elapsed(reinterpret_cast<td_event>(start), reinterpret_cast<td_event>(end), &milliseconds),
          "timing between events");
    return milliseconds;
  });
  module.def("occupy", [](int device, StreamId stream, int milliseconds) {  // keeps a stream busy, for tests
    auto argument = reinterpret_cast<void*>(static_cast<intptr_t>(milliseconds));
    check(driver().stream_call(native_stream(device, stream), sleep_on_stream, argument), "occupying a stream");
  });

  module.def("memory_statistics", [](int device) { return statistics(device_memory::statistics(device)); });
  module.def("reset_peak", &device_memory::reset_peak);
  module.def("reset_accumulated", &device_memory::reset_accumulated);
  module.def("set_fraction", &device_memory::set_fraction);
  module.def("fraction", &device_memory::fraction);
  module.def("make_pool", &device_memory::make_pool);
  module.def("enter_pool",
             [](int device, device_memory::PoolId pool) { device_memory::enter_pool(device, pool, std::nullopt); });
  module.def("leave_pool", &device_memory::leave_pool);
  module.def("drop_pool", &device_memory::drop_pool);
  module.def("set_caching", &device_memory::set_caching);
  module.def("caching", &device_memory::caching);
  module.def("memory_snapshot", &memory_snapshot);
  module.def("memory_history", &memory_history);
  module.def("record_history", &device_memory::record_history);
  module.def("forget_history", &device_memory::forget_history);
  module.def("raw_allocate", torch::wrap_pybind_function_no_gil(raw_allocate));  // OutOfMemoryError stays that
  module.def(
      "raw_deallocate", [](uintptr_t address) { device_allocator()->raw_deallocate(reinterpret_cast<void*>(address)); },
      NoGil());
  module.def("empty_cache", &device_memory::empty_cache, NoGil());
  module.def("memory_info", [](int device) {
    size_t available = 0;
    size_t total = 0;
    check_device(device);
    ensure_init();
    check(driver().memory_info(device, &available, &total), "asking for memory");
    return std::make_pair(available, total);
  });
  module.def("pinned_statistics", [] { return statistics(pinned_memory::statistics()); });
  module.def("pinned_reset_peak", &pinned_memory::reset_peak);
  module.def("pinned_reset_accumulated", &pinned_memory::reset_accumulated);
  module.def("pinned_empty_cache", &pinned_memory::empty_cache, NoGil());

  module.def("default_generator", [](int device) { return default_generator(static_cast<c10::DeviceIndex>(device)); });
  module.def("set_fallback_enabled", &set_fallback_enabled);
  module.def("set_sync_debug_mode", &set_sync_debug_mode);
  module.def("sync_debug_mode", &sync_debug_mode);
  module.def("set_flags", &set_flags);
  module.def("get_flags", [](const at::Tensor& tensor) {
    const auto* meta = tensor_meta_as(tensor);
    return meta == nullptr ? std::unordered_map<std::string, bool>() : meta->flags;
  });
  module.def("has_graphs", &has_graphs);
  module.def("offer_graphs", &offer_graphs);
  module.def("is_capturing", [] { return is_capturing(current_device()); });
  module.def("make_graph_pool", &make_graph_pool);
  py::class_<Graph>(module, "Graph")
      .def(py::init<>())
      .def("begin", &Graph::begin)
      .def("end", &Graph::end)
      .def("replay", &Graph::replay)
      .def("reset", &Graph::reset, NoGil())
      .def("pool", &Graph::pool);
  module.def("driver_control", [](const std::string& key, long long value) {
    check(driver().control == nullptr ? TD_INVALID : driver().control(key.c_str(), value), "setting a driver's knob");
  });
  module.def("watch", [](bool on) { watch.store(on ? &trace : nullptr, std::memory_order_release); });
  // names for the vendor's own tool; a driver may have none
  module.def("range_push", [](const std::string& name) {
    if (driver().range_push != nullptr) driver().range_push(name.c_str());
  });
  module.def("range_pop", [] {
    if (driver().range_pop != nullptr) driver().range_pop();
  });
  module.def("mark", [](const std::string& name) {
    if (driver().mark != nullptr) driver().mark(name.c_str());
  });
  module.def("host_staged_backend", &host_staged);
  module.def("own_collectives", [] {
    std::vector<std::string> names;
    for (const auto& each : own_collectives()) names.push_back(each.name);
    return names;
  });
  module.def("make_collectives", [](const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                    int size, int64_t timeout, const c10::intrusive_ptr<c10d::Backend>& host) {
    for (const auto& each : own_collectives()) {  // timeout: milliseconds
      if (each.name == name) return each.make({store, rank, size, std::chrono::milliseconds(timeout), host});
    }
    TORCH_CHECK(false, "the backend has no collectives '", name, "'");
  });
  module.def("python_functions", &python_functions);
  module.def("records_work", &records_work);
  define_python_driver(module);
}

}  // namespace third_device
