// What the patch generator-new-through-hooks adds to libtorch_cuda, over a libtorch_cuda that was compiled without it: the
// patched core asks CUDA's hooks for a new generator. From 2.7 on upstream's own hooks answer that.
//
// That library keeps its class to itself, so this one stands before it: it answers the one question, opens the library that
// upstream's builds have apart from libtorch_cuda, and hands on all others.
// Registered with a higher priority, it must be loaded after libtorch_cuda and before ATen asks for the first time.
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <dlfcn.h>

#include <memory>
#include <string>

namespace at {
namespace {

// Never destroyed, as ATen's own pointer to WithGenerator is not: what runs at the process's end may still ask.
CUDAHooksInterface* const theirs = CUDAHooksRegistry()->Create("CUDAHooks", CUDAHooksArgs{}).release();

// ATen opens libtorch_cuda_linalg by its bare name, from libtorch_cpu, whose run path does not lead to this folder; a library
// that is open already is found by that name. Only once CUDA has started: MAGMA asks for the devices when it is opened, and
// CUDA is refused to a child forked after that. What cannot be opened is told by the operator that wants it.
void open_linalg() {
  Dl_info here;
  if (dladdr(&theirs, &here) == 0 || here.dli_fname == nullptr) return;
  std::string path(here.dli_fname);
  path.resize(path.find_last_of('/') + 1);
  dlopen((path + "libtorch_cuda_linalg.so").c_str(), RTLD_LAZY | RTLD_LOCAL);
}

struct WithGenerator final : CUDAHooksInterface {
  void init() const override {
    theirs->init();
    open_linalg();
  }

  Generator getNewGenerator(DeviceIndex device) const override {
    return make_generator<CUDAGeneratorImpl>(device);
  }

#define HAND_ON(result, name, parameters, arguments) \
  result name parameters const override {            \
    return theirs->name arguments;                   \
  }
  HAND_ON(DeviceIndex, deviceCount, (), ())
  HAND_ON(void, setCurrentDevice, (DeviceIndex device), (device))
  HAND_ON(DeviceIndex, getCurrentDevice, (), ())
  HAND_ON(DeviceIndex, exchangeDevice, (DeviceIndex device), (device))
  HAND_ON(DeviceIndex, maybeExchangeDevice, (DeviceIndex device), (device))
  HAND_ON(bool, hasPrimaryContext, (DeviceIndex device), (device))
  HAND_ON(bool, isPinnedPtr, (const void* data), (data))
  HAND_ON(Allocator*, getPinnedMemoryAllocator, (), ())
  HAND_ON(Allocator*, getCUDADeviceAllocator, (), ())
  HAND_ON(Device, getDeviceFromPtr, (void* data), (data))
  HAND_ON(const Generator&, getDefaultGenerator, (DeviceIndex device), (device))
  HAND_ON(bool, hasCUDA, (), ())
  HAND_ON(bool, hasCUDART, (), ())
  HAND_ON(bool, hasMAGMA, (), ())
  HAND_ON(bool, hasCuDNN, (), ())
  HAND_ON(bool, hasCuSOLVER, (), ())
  HAND_ON(bool, hasCuBLASLt, (), ())
  HAND_ON(bool, hasROCM, (), ())
  HAND_ON(const cuda::NVRTC&, nvrtc, (), ())
  HAND_ON(DeviceIndex, current_device, (), ())
  HAND_ON(bool, compiledWithCuDNN, (), ())
  HAND_ON(bool, compiledWithMIOpen, (), ())
  HAND_ON(bool, supportsDilatedConvolutionWithCuDNN, (), ())
  HAND_ON(bool, supportsDepthwiseConvolutionWithCuDNN, (), ())
  HAND_ON(bool, supportsBFloat16ConvolutionWithCuDNNv8, (), ())
  HAND_ON(long, versionCuDNN, (), ())
  HAND_ON(long, versionCUDART, (), ())
  HAND_ON(std::string, showConfig, (), ())
  HAND_ON(double, batchnormMinEpsilonCuDNN, (), ())
  HAND_ON(int64_t, cuFFTGetPlanCacheMaxSize, (DeviceIndex device), (device))
  HAND_ON(void, cuFFTSetPlanCacheMaxSize, (DeviceIndex device, int64_t size), (device, size))
  HAND_ON(int64_t, cuFFTGetPlanCacheSize, (DeviceIndex device), (device))
  HAND_ON(void, cuFFTClearPlanCache, (DeviceIndex device), (device))
  HAND_ON(int, getNumGPUs, (), ())
  HAND_ON(void, deviceSynchronize, (DeviceIndex device), (device))
#undef HAND_ON
};

const bool registered = [] {
  CUDAHooksRegistry()->Register(
      "CUDAHooks",
      [](CUDAHooksArgs) -> std::unique_ptr<CUDAHooksInterface> { return std::make_unique<WithGenerator>(); },
      c10::REGISTRY_PREFERRED);
  return true;
}();

} // namespace
} // namespace at
