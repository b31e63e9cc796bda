// The way in of libtorch_kineto_cuda: gives the Kineto of a core without CUPTI a profiler that has it.
//
// The library is the half of Kineto's own sources that reads HAS_CUPTI, compiled with it (cmake/Kineto.cmake). Its names are
// hidden: libtorch_cpu exports the same ones, compiled without. What has state that both halves must see (the api()
// object, configuration, the log, thread ids) stays the core's.
#include <ATen/Context.h>
#ifdef TORCH_CUDA_CORE_BUILT
#include <torch/csrc/profiler/kineto_shim.h>
#endif

#include <dlfcn.h>

#include <cstdlib>

#include <libkineto.h>

#include <ApproximateClock.h> // last: it includes headers of the system inside its namespace

namespace libkineto {
// Our copy of get_time_converter(), under a name of its own. PyTorch sets the core's.
std::function<time_t(approx_time_t)>& cupti_time_converter();
} // namespace libkineto

namespace {

using libkineto::ActivityProfilerInterface;
using libkineto::ActivityType;

// What stands in api() as ours: Deferred, or the profiler that took its place.
ActivityProfilerInterface* ours = nullptr;

// Kineto's own initialisation, compiled with CUPTI; it puts the profiler into the core's api(). cpuOnly is what
// torch/csrc/autograd/profiler_kineto.cpp says.
void registerKineto() {
  const bool others = at::hasXPU() || at::hasMTIA() || c10::get_privateuse1_backend() != "privateuseone";
  libkineto_init(/*cpuOnly=*/!(at::hasCUDA() || others), /*logOnError=*/true);
  suppressLibkinetoLogMessages();
  ours = &libkineto::api().activityProfiler();
}

// Stands where a profiler is expected until the first trace. PyTorch creates its own then (kineto_shim.cpp: prepareTrace) and
// not before, because CUPTI has one subscriber, costs time, and is nothing for a program that never makes a profile. An
// optimizer's step asks for the profiler too; it finds one that is not initialised, as upstream's finds none.
class Deferred final : public ActivityProfilerInterface {
 public:
  void prepareTrace(const std::set<ActivityType>& types, const std::string& config) override {
    awake().prepareTrace(types, config); // *this is gone
  }
  void scheduleTrace(const std::string& config) override {
    awake().scheduleTrace(config);
  }
  void addMetadata(const std::string& /*key*/, const std::string& /*value*/) override {}

 private:
  static ActivityProfilerInterface& awake() {
    registerKineto();
    // Not the core's instance of this inline function: its flag "once" was used up on the way here, ours was not.
    libkineto::api().initProfilerIfRegistered();
    return libkineto::api().activityProfiler();
  }
};

// Whether libtorch_cpu was compiled with CUPTI itself, as the official CUDA wheel's is.
bool coreHasCupti() {
  Dl_info core{};
  if (dladdr(reinterpret_cast<void*>(&libkineto::api), &core) == 0) {
    return false;
  }
  void* library = dlopen(core.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr && dlsym(library, "_ZN9libkineto13use_cupti_tscEv") != nullptr;
}

bool takeOver() {
  auto& api = libkineto::api();
  if (coreHasCupti()) {
    return false;
  }
  if (api.isProfilerRegistered() && (&api.activityProfiler() == ours || api.isProfilerInitialized())) {
    return &api.activityProfiler() == ours;
  }
  libkineto::cupti_time_converter() = [](libkineto::approx_time_t ticks) {
    return libkineto::get_time_converter()(ticks);
  };
  auto deferred = std::make_unique<Deferred>();
  ours = deferred.get();
  api.registerProfiler(std::move(deferred));
#ifdef TORCH_CUDA_CORE_BUILT
  torch::profiler::impl::kineto::tracesGpu() = true;
#endif
  return true;
}

const bool atLoad = takeOver();

} // namespace

// Once more, when torch._C is there: with KINETO_USE_DAEMON it has put the core's profiler over ours and expects one
// that is ready. Returns whether Kineto's profiler in this process is ours.
extern "C" __attribute__((visibility("default"))) bool torch_kineto_cuda_register() {
  const bool taken = takeOver();
  if (taken && std::getenv("KINETO_USE_DAEMON") != nullptr && dynamic_cast<Deferred*>(ours) != nullptr) {
    registerKineto();
  }
  return taken;
}
