// An operator for a backend by somebody who does not write that backend: built against torch_sim's headers and library,
// registered for its device, run on its streams.
#include <third_device/backend.h>
#include <third_device/sim_driver.h>

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

namespace {

at::Tensor scale(const at::Tensor& input, double factor) {
  TORCH_CHECK(input.scalar_type() == at::kFloat, "scale takes float32, not ", input.scalar_type());
  const c10::DeviceGuard guard(input.device());
  const at::Tensor operand = input.contiguous();
  at::Tensor result = at::empty_like(operand);
  third_device::enqueue(input.get_device(), [from = operand.const_data_ptr<float>(), to = result.mutable_data_ptr<float>(),
                                             count = operand.numel(), by = static_cast<float>(factor)] {
    const float* read = third_device::sim::sim_view_as(from);
    float* write = third_device::sim::sim_view_as(to);
    for (int64_t i = 0; i < count; ++i) write[i] = by * read[i];
  });
  return result;
}

}  // namespace

TORCH_LIBRARY(sim_scale, m) { m.def("scale(Tensor input, float factor) -> Tensor"); }
TORCH_LIBRARY_IMPL(sim_scale, PrivateUse1, m) { m.impl("scale", &scale); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.doc() = "torch.ops.sim_scale"; }
