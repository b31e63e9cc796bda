// The driver of torch_puone: the CUDA runtime, as third_device/examples/cuda_like_driver.cpp has it.
#include <ATen/Context.h>
#include <third_device/driver.h>

#include <exception>

extern "C" const td_driver* cuda_runtime_driver();

namespace {

td_status init() {
  try {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);  // PyTorch's allocators and generators for CUDA
    return TD_OK;
  } catch (const std::exception&) {
    return TD_FAILED;
  }
}

// What torch.cuda has made current stays so: CUDA's operators look at the devices of their tensors, and the table's
// functions are told theirs.
td_status device_set(int) { return TD_OK; }

}  // namespace

extern "C" const td_driver* third_device_driver() {
  static const td_driver table = [] {
    td_driver made = *cuda_runtime_driver();
    made.init = init;
    made.device_set = device_set;
    return made;
  }();
  return &table;
}
