// The device in profiles. Three ways lead there: Kineto asks each registered profiler for what its device did, which is
// torch.profiler with ProfilerActivity.PrivateUse1; the autograd profiler without Kineto records events of ours around every
// operator (torch/csrc/profiler/stubs/base.h); and every operator is named to the vendor's own tool (emit_ranges).
#include <third_device/backend.h>

#include <c10/core/DeviceGuard.h>
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#if TD_KINETO
#include <kineto/libkineto.h>

#include <kineto/output_base.h>
#endif

namespace third_device {
namespace {

td_event as_event(void* event) { return static_cast<td_event>(event); }

int64_t now() {  // nanoseconds, of the clock that Kineto's own events have
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  using Event = torch::profiler::impl::ProfilerVoidEventStub;
  void record(c10::DeviceIndex* device, Event* event, int64_t* cpu_ns) const override {
    int index = current_device();
    td_event made = nullptr;
    ensure_init();
    check(driver().event_create(index, 1, &made), "making an event");
    *event = Event(made, [](void* old) { driver().event_destroy(as_event(old)); });
    if (device != nullptr) *device = static_cast<c10::DeviceIndex>(index);
    if (cpu_ns != nullptr) *cpu_ns = now();
    check(driver().event_record(made, native_current_stream(index)), "recording an event");
  }
  float elapsed(const Event* start, const Event* end) const override {  // microseconds
    check(driver().event_synchronize(as_event(start->get())), "waiting for an event");
    check(driver().event_synchronize(as_event(end->get())), "waiting for an event");
    double milliseconds = 0;
    check(driver().event_elapsed(as_event(start->get()), as_event(end->get()), &milliseconds), "timing between events");
    return static_cast<float>(milliseconds * 1000);
  }
  void mark(const char* name) const override {
    if (driver().mark != nullptr) driver().mark(name);
  }
  void rangePush(const char* name) const override {
    if (driver().range_push != nullptr) driver().range_push(name);
  }
  void rangePop() const override {
    if (driver().range_pop != nullptr) driver().range_pop();
  }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> operation) const override {
    c10::DeviceGuard guard(c10::Device(kDevice, static_cast<c10::DeviceIndex>(current_device())));
    for (int i = 0; i < device_count(); ++i) {
      guard.set_index(static_cast<c10::DeviceIndex>(i));
      operation(i);
    }
  }
  void synchronize() const override { synchronize_device(current_device()); }
};

// The state of a profile that only names operators: ProfilerState.PRIVATEUSE1, for which upstream has no profiler of its own.
struct Ranges final : torch::profiler::impl::ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;
  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::PRIVATEUSE1;
  }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

void push_ranges(const torch::profiler::impl::ProfilerConfig& config, const std::unordered_set<at::RecordScope>& scopes) {
  auto state = std::make_shared<Ranges>(config);
  torch::profiler::impl::ProfilerStateBase::push(state);
  const auto begin = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    torch::profiler::impl::privateuse1Stubs()->rangePush(call.name());
    return nullptr;
  };
  const auto end = [](const at::RecordFunction&, at::ObserverContext*) {
    torch::profiler::impl::privateuse1Stubs()->rangePop();
  };
  state->setCallbackHandle(at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).scopes(scopes)));
}

#if TD_KINETO

// The correlations of the operators that this thread is in, the innermost last.
thread_local std::vector<uint64_t> correlations;

// A row of the trace; its constructor went away with a release of Kineto.
template <typename Row = libkineto::ResourceInfo>
Row row(int64_t device, int64_t id, std::string name) {
  if constexpr (std::is_aggregate_v<Row>) {
    return Row{id, id, device, std::move(name)};
  } else {
    return Row(device, id, id, name);
  }
}

// One trace. Kineto gives every operator a correlation, the driver puts it on the work that the operator enqueues, and
// that leads from a record back to the operator.
class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    started_ = now();
    attempt([] {
      if (device_count() == 0) return;
      ensure_init();
      check(driver().trace_start(), "starting a trace");
    });
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    attempt([this] {
      if (!is_initialized()) return;
      for (int device = 0; device < device_count(); ++device) synchronize_device(device);
      check(driver().trace_stop(&Session::take, this), "ending a trace");
    });
    stopped_ = now();
    status_ = errors_.empty() ? libkineto::TraceStatus::PROCESSING : libkineto::TraceStatus::ERROR;
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    const auto unknown = [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; };
    processTrace(logger, unknown, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback operator_of, int64_t from,
                    int64_t to) override {
    buffer_->span = libkineto::TraceSpan(started_, stopped_, "__" + c10::get_privateuse1_backend() + "__");
    for (const Kept& kept : kept_) {
      if (kept.record.began < from || kept.record.ended > to) continue;
      const libkineto::ITraceActivity* caller = kept.record.tag == 0 ? nullptr : operator_of(narrow(kept.record.tag));
      ++flow_;  // an arrow of the trace from the call to the work
      if (kept.record.returned != 0) add_call(kept, caller, logger);
      add_work(kept, caller, logger);
    }
    kept_.clear();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [device, stream] : rows_) {
      rows.push_back(row(device, stream, "stream " + std::to_string(stream)));
    }
    return rows;
  }

  // On the heap from the start: the activities point to its span, and outlive this object.
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override {
    correlations.push_back(id);
    driver().trace_tag(id);
  }
  void popCorrelationId() override {
    if (correlations.empty()) return;  // begun before the trace
    correlations.pop_back();
    driver().trace_tag(correlations.empty() ? 0 : correlations.back());
  }

 private:
  struct Kept {
    td_record record;
    std::string name;
  };

  static void take(void* self, const td_record* record) {
    auto& kept = static_cast<Session*>(self)->kept_;
    kept.push_back({*record, record->name == nullptr ? "" : record->name});
  }

  static int32_t narrow(uint64_t value) { return static_cast<int32_t>(value); }

  // Exceptions must not reach Kineto, which has none: a device that is lost costs its rows in the trace.
  template <typename Action>
  void attempt(Action action) {
    try {
      action();
    } catch (const std::exception& error) {
      errors_.emplace_back(error.what());
    }
  }

  libkineto::GenericTraceActivity& add(libkineto::ActivityType type, const std::string& name, const Kept& kept,
                                       const libkineto::ITraceActivity* caller, bool begins) {
    buffer_->emplace_activity(buffer_->span, type, name);
    libkineto::GenericTraceActivity& made = *buffer_->activities.back();
    made.id = narrow(flow_);
    made.linked = caller;
    made.threadId = kept.record.thread;
    made.flow.id = flow_;
    made.flow.type = libkineto::kLinkAsyncCpuGpu;
    made.flow.start = begins;
    ++buffer_->span.opCount;
    return made;
  }

  void add_call(const Kept& kept, const libkineto::ITraceActivity* caller, libkineto::ActivityLogger& logger) {
    static const char* const names[] = {"launch", "copy", "set"};
    auto& made = add(libkineto::ActivityType::PRIVATEUSE1_RUNTIME, names[kept.record.kind], kept, caller, true);
    made.startTime = kept.record.called;
    made.endTime = kept.record.returned;
    made.device = libkineto::processId();
    made.resource = kept.record.thread;
    made.log(logger);
  }

  void add_work(const Kept& kept, const libkineto::ITraceActivity* caller, libkineto::ActivityLogger& logger) {
    static const libkineto::ActivityType types[] = {libkineto::ActivityType::CONCURRENT_KERNEL,
                                                    libkineto::ActivityType::GPU_MEMCPY,
                                                    libkineto::ActivityType::GPU_MEMSET};
    std::string name = kept.name;
    if (name.empty()) name = caller == nullptr ? "work" : caller->name();
    auto& made = add(types[kept.record.kind], name, kept, caller, false);
    made.startTime = kept.record.began;
    made.endTime = kept.record.ended;
    made.device = kept.record.device;
    made.resource = kept.record.stream;
    if (kept.record.kind != TD_WORK_KERNEL) made.addMetadataQuoted("bytes", std::to_string(kept.record.bytes));
    ++buffer_->gpuOpCount;
    rows_.emplace(kept.record.device, kept.record.stream);
    made.log(logger);
  }

  int64_t started_ = 0;
  int64_t stopped_ = 0;
  uint32_t flow_ = 0;
  std::vector<Kept> kept_;
  std::vector<std::string> errors_;
  std::set<std::pair<int, int>> rows_;  // device and stream
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = [] {
    auto made = std::make_unique<libkineto::CpuTraceBuffer>();
    made->gpuOpCount = 0;
    return made;
  }();
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string own = c10::get_privateuse1_backend();
    return own;
  }
  const std::set<libkineto::ActivityType>& availableActivities() const override {
    static const std::set<libkineto::ActivityType> types{
        libkineto::ActivityType::CONCURRENT_KERNEL, libkineto::ActivityType::GPU_MEMCPY,
        libkineto::ActivityType::GPU_MEMSET, libkineto::ActivityType::PRIVATEUSE1_RUNTIME};
    return types;
  }
  // Null, no session, for a profile of the host alone.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<libkineto::ActivityType>& types,
                                                                 const libkineto::Config&) override {
    if (types.count(libkineto::ActivityType::CONCURRENT_KERNEL) == 0) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t,
                                                                 const std::set<libkineto::ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

#endif

const bool registered = [] {
  torch::profiler::impl::registerPrivateUse1Methods(new Stubs);
  torch::profiler::impl::pushPRIVATEUSE1CallbacksStub.set_privateuse1_dispatch_ptr(&push_ranges);
#if TD_KINETO
  if (records_work()) {
    libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
  }
#endif
  return true;
}();

}  // namespace

bool records_work() noexcept {
#if TD_KINETO
  try {
    const td_driver& table = driver();
    return table.trace_start != nullptr && table.trace_stop != nullptr && table.trace_tag != nullptr;
  } catch (const Error&) {  // whoever uses the device is told
    return false;
  }
#else
  return false;
#endif
}

}  // namespace third_device
