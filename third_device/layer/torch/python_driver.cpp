// A driver in Python: functions of torch_<name>/driver.py take the place of members of the driver's table, and the others
// stay those of csrc/driver.cpp. `python/python_driver.py` calls what is defined here.
//
// What the C interface asks of a driver and Python does not give by itself:
//  - a function of Python blocks, so copies and the like are enqueued on a stream of the table below, whose thread calls it;
//  - who waits for that thread must not hold the GIL, so the functions that wait give it back meanwhile;
//  - an exception is a status with a text, and no call reaches Python once the interpreter ends.
#include <third_device/runtime.h>

#include <pybind11/pybind11.h>

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace third_device {

namespace {

constexpr uintptr_t kAlignment = 512;  // what driver.h promises of an address
constexpr std::chrono::seconds kLeave{2};

struct Allocation {
  int device;
  size_t bytes;
};

struct PythonDriver {
  const td_driver* below = nullptr;
  td_driver table{};
  int count = 0;
  py::object device_properties, memory_info, memory_alloc, memory_free, memory_set, copy;  // null where driver.py has none
  std::mutex mutex;  // of what follows; Python is never called with it held
  std::map<const char*, Allocation> allocations;
  int inside = 0;  // calls that are in Python
  bool closed = false;
  std::condition_variable left;
};

// Never destroyed: it is asked by threads that outlive the interpreter, and its objects end with the interpreter.
PythonDriver* python = nullptr;

thread_local std::string text;
thread_local bool has_text = false;  // the last failure on this thread is ours, not that of the table below
thread_local bool on_stream = false;  // this thread is a stream's, at work

td_status fail(td_status status, std::string why) {
  text = std::move(why);
  has_text = true;
  return status;
}

const char* error_text() { return has_text ? text.c_str() : python->below->error_text(); }

// Keeps the interpreter from ending while a call is in Python, or says that it has ended.
class Visit {
 public:
  Visit() {
    std::lock_guard<std::mutex> hold(python->mutex);
    open_ = !python->closed;
    if (open_) ++python->inside;
  }
  ~Visit() {
    if (!open_) return;
    std::lock_guard<std::mutex> hold(python->mutex);
    --python->inside;
    python->left.notify_all();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  bool open() const { return open_; }

 private:
  bool open_;
};

// Before 3.14 Python ends a thread that asks for the GIL after the interpreter's end, by unwinding it. What that would
// destroy wants the GIL, so the thread stays where it is, as from 3.14 on; the process ends without it. What catches it names
// no type: a reference to the unwinding is null (abi::__forced_unwind), and UBSan ends the process for it.
[[noreturn]] void stay() {
  for (;;) ::pause();
}

// Calls a function of driver.py: nothing that holds an object of Python lies between the call and where its unwinding ends.
template <typename... Arguments>
py::object call_function(const py::object& function, Arguments... arguments) {
  const py::tuple given = py::make_tuple(arguments...);
  PyObject* result = nullptr;
  try {
    result = PyObject_CallObject(function.ptr(), given.ptr());
  } catch (...) {  // C throws nothing else
    stay();
  }
  if (result == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

// Runs `work` with the GIL; what it throws becomes a status and a text with the file and line of driver.py.
template <typename F>
td_status call(const char* name, F&& work) {
  has_text = false;
  const Visit visit;
  if (!visit.open()) return fail(TD_FAILED, std::string(name) + ": the interpreter has ended");
  std::optional<py::gil_scoped_acquire> gil;
  try {
    gil.emplace();
  } catch (...) {
    stay();
  }
  const py::error_scope kept;  // of an exception under way: memory is freed then, too
  try {
    work();
    return TD_OK;
  } catch (const py::error_already_set& error) {
    return fail(error.matches(PyExc_MemoryError) ? TD_OUT_OF_MEMORY : TD_FAILED, std::string(name) + ": " + error.what());
  } catch (const std::exception& error) {
    return fail(TD_INVALID, std::string(name) + ": " + error.what());
  }
}

// For functions that wait: the thread of a stream may need the GIL to come to an end.
template <typename F>
td_status without_gil(F&& wait) {
  has_text = false;
  if (on_stream) return fail(TD_INVALID, "a function on a stream waits for none: it may be its own");
  bool open = false;
  {
    std::lock_guard<std::mutex> hold(python->mutex);
    open = !python->closed;
  }
  if (!open || PyGILState_Check() == 0) return wait();
  const py::gil_scoped_release released;
  return wait();
}

struct Work {
  const char* name;
  std::function<void()> run;  // with the GIL
};

td_status run_work(void* given) {
  const std::unique_ptr<Work> work(static_cast<Work*>(given));
  on_stream = true;
  const td_status status = call(work->name, work->run);
  on_stream = false;
  if (status != TD_OK) throw std::runtime_error(text);  // the table below reports it by itself
  return TD_OK;
}

td_status enqueue(td_stream stream, const char* name, std::function<void()> run) {
  has_text = false;
  auto work = std::make_unique<Work>(Work{name, std::move(run)});
  const td_status status = python->below->stream_call(stream, run_work, work.get());
  if (status == TD_OK) (void)work.release();
  return status;
}

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

td_status device_count(int* count) {
  *count = python->count;
  return TD_OK;
}

td_status device_properties(int device, td_properties* properties) {
  return call("device_properties", [&] {
    const py::dict found = call_function(python->device_properties, device);
    *properties = td_properties{};
    std::snprintf(properties->name, sizeof properties->name, "%s", found["name"].cast<std::string>().c_str());
    properties->total_memory = found["total_memory"].cast<uint64_t>();
    for (auto [key, value] : {std::pair{"major", &properties->major}, std::pair{"minor", &properties->minor},
                              std::pair{"units", &properties->units}}) {
      if (found.contains(key)) *value = found[key].cast<int32_t>();
    }
  });
}

td_status memory_info(int device, size_t* free_bytes, size_t* total_bytes) {
  if (python->memory_info) {
    return call("memory_info", [&] {
      std::tie(*free_bytes, *total_bytes) = call_function(python->memory_info, device).cast<std::pair<size_t, size_t>>();
    });
  }
  td_properties properties{};
  if (td_status status = python->table.device_properties(device, &properties)) return status;
  size_t used = 0;
  std::lock_guard<std::mutex> hold(python->mutex);
  for (const auto& [address, each] : python->allocations) used += each.device == device ? each.bytes : 0;
  *total_bytes = properties.total_memory;
  *free_bytes = *total_bytes > used ? *total_bytes - used : 0;
  return TD_OK;
}

td_status memory_alloc(int device, size_t bytes, void** address) {
  uintptr_t made = 0;
  *address = nullptr;
  if (td_status status = call("memory_alloc", [&] { made = call_function(python->memory_alloc, device, bytes).cast<uintptr_t>(); })) {
    return status;
  }
  if (made == 0 || made % kAlignment != 0) {
    return fail(TD_INVALID, "memory_alloc: an address is a multiple of " + std::to_string(kAlignment) + " and not 0, this is " +
                                std::to_string(made));
  }
  const auto* begin = reinterpret_cast<const char*>(made);
  std::lock_guard<std::mutex> hold(python->mutex);
  const auto after = python->allocations.lower_bound(begin);
  const auto before = after == python->allocations.begin() ? after : std::prev(after);
  if ((after != python->allocations.end() && number(after->first) - made < bytes) ||
      (before != after && made - number(before->first) < before->second.bytes)) {
    return fail(TD_INVALID, "memory_alloc: " + std::to_string(made) + " is in use; all devices share one space of addresses");
  }
  *address = reinterpret_cast<void*>(made);
  python->allocations[begin] = {device, bytes};
  return TD_OK;
}

td_status memory_free(int device, void* address) {
  {
    std::lock_guard<std::mutex> hold(python->mutex);
    python->allocations.erase(static_cast<const char*>(address));
  }
  return call("memory_free", [&] {
    try {
      call_function(python->memory_free, device, number(address));
    } catch (py::error_already_set& error) {  // nobody asks the layer what became of it: as in a __del__ of Python
      error.discard_as_unraisable("memory_free");
    }
  });
}

td_status memory_owner(const void* address, td_memory* kind, int* device) {
  const auto* at = static_cast<const char*>(address);
  {
    std::lock_guard<std::mutex> hold(python->mutex);
    auto after = python->allocations.upper_bound(at);
    if (after != python->allocations.begin() && at < std::prev(after)->first + std::prev(after)->second.bytes) {
      *kind = TD_MEMORY_DEVICE;
      *device = std::prev(after)->second.device;
      return TD_OK;
    }
  }
  has_text = false;
  return python->below->memory_owner(address, kind, device);  // pinned memory
}

td_status copy(void* to, int to_device, const void* from, int from_device, size_t bytes, td_stream stream) {
  if (on_stream && (to_device == TD_HOST || from_device == TD_HOST)) {  // its host memory would go before the copy is done
    return fail(TD_INVALID, "a function on a stream waits for none: it may be its own");
  }
  return enqueue(stream, "copy", [=] { call_function(python->copy, number(to), to_device, number(from), from_device, bytes); });
}

td_status memory_set(void* address, int value, size_t bytes, td_stream stream) {
  if (python->memory_set) {
    return enqueue(stream, "memory_set", [=] { call_function(python->memory_set, number(address), value, bytes); });
  }
  td_memory kind = TD_MEMORY_UNKNOWN;
  int device = TD_HOST;
  if (td_status status = memory_owner(address, &kind, &device)) return status;
  return enqueue(stream, "copy", [=] {
    const std::vector<char> filled(bytes, static_cast<char>(value));
    call_function(python->copy, number(address), device, number(filled.data()), TD_HOST, bytes);
  });
}

td_status device_synchronize(int device) {
  return without_gil([=] { return python->below->device_synchronize(device); });
}
td_status stream_synchronize(td_stream stream) {
  return without_gil([=] { return python->below->stream_synchronize(stream); });
}
td_status event_synchronize(td_event event) {
  return without_gil([=] { return python->below->event_synchronize(event); });
}

// A member that stays the table's below: its failures have its own text, not that of an earlier failure of ours.
template <auto Member>
struct Below;
template <typename... Arguments, td_status (*td_driver::*Member)(Arguments...)>
struct Below<Member> {
  static td_status call(Arguments... arguments) {
    has_text = false;
    return (python->below->*Member)(arguments...);
  }
};

template <auto... Members>
void pass_to(td_driver& table) {
  ((table.*Members = table.*Members == nullptr ? nullptr : &Below<Members>::call), ...);
}

// `functions`: by the name of the member. Once in a process, before a device is used.
void use(const py::dict& functions) {
  if (python != nullptr) throw Error(TD_INVALID, "this process has a driver in Python already");
  auto* made = new PythonDriver;
  made->below = &driver();
  made->count = functions["device_count"]().cast<int>();
  for (auto [name, function] :
       {std::pair{"device_properties", &made->device_properties}, std::pair{"memory_info", &made->memory_info},
        std::pair{"memory_alloc", &made->memory_alloc}, std::pair{"memory_free", &made->memory_free},
        std::pair{"memory_set", &made->memory_set}, std::pair{"copy", &made->copy}}) {
    if (functions.contains(name)) *function = functions[name];
  }
  made->table = *made->below;
  pass_to<&td_driver::init, &td_driver::device_set, &td_driver::device_properties, &td_driver::host_alloc,
          &td_driver::host_free, &td_driver::stream_priorities, &td_driver::stream_create, &td_driver::stream_destroy,
          &td_driver::stream_query, &td_driver::stream_wait, &td_driver::stream_call, &td_driver::event_create,
          &td_driver::event_destroy, &td_driver::event_record, &td_driver::event_query, &td_driver::event_elapsed,
          &td_driver::control, &td_driver::trace_start, &td_driver::trace_stop, &td_driver::trace_tag>(made->table);
  // What it enqueues is called once, and given back then.
  made->table.graph_begin = nullptr;
  made->table.graph_end = nullptr;
  made->table.graph_launch = nullptr;
  made->table.graph_destroy = nullptr;
  made->table.graph_captures = nullptr;
  made->table.error_text = error_text;
  made->table.device_count = device_count;
  if (made->device_properties) made->table.device_properties = device_properties;
  made->table.memory_info = memory_info;
  made->table.memory_alloc = memory_alloc;
  made->table.memory_free = memory_free;
  made->table.memory_owner = memory_owner;
  made->table.memory_set = memory_set;
  made->table.copy = copy;
  made->table.device_synchronize = device_synchronize;
  made->table.stream_synchronize = stream_synchronize;
  made->table.event_synchronize = event_synchronize;
  int below = 0;
  check(made->below->device_count(&below), "counting devices");
  if (made->count < 0 || made->count > below) {
    throw Error(TD_INVALID, "device_count: " + std::to_string(made->count) + " devices, but csrc/driver.cpp has streams for " +
                                std::to_string(below));
  }
  python = made;
  replace_driver(&made->table);
  if (third_device::device_count() != made->count) throw Error(TD_INVALID, "the devices were counted before driver.py was there");
}

// Before the interpreter ends: calls that are in Python get a while to leave it, and no other enters.
void close() {
  if (is_bad_fork()) return;  // the threads that were inside are the parent's, and this process uses no device
  std::unique_lock<std::mutex> hold(python->mutex);
  python->closed = true;
  python->left.wait_for(hold, kLeave, [] { return python->inside == 0; });
}

void enqueue_function(int device, StreamId stream, py::object function) {
  if (python == nullptr) throw Error(TD_INVALID, "functions of Python are enqueued with a driver in Python only: torch_<name>/driver.py");
  // Given back with the GIL where it runs, and left where the interpreter has ended.
  auto* given = new py::object(std::move(function));
  const td_status status = enqueue(native_stream(device, stream), "an enqueued function", [given] {
    const std::unique_ptr<py::object> function(given);
    call_function(*function);
  });
  if (status != TD_OK) delete given;
  check(status, "enqueuing a function");
}

}  // namespace

void define_python_driver(py::module_& module) {
  module.def("use_python_driver", &use);
  module.def("close_python_driver", &close, py::call_guard<py::gil_scoped_release>());
  module.def("enqueue", &enqueue_function);
}

}  // namespace third_device
