// The extension of ../extension by PyTorch's stable interface: one build for PyTorch 2.10 and all later releases.
#include <third_device/sim_driver.h>
#include <third_device/stable.h>

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <Python.h>

#include <cstdint>
#include <memory>

namespace {

using torch::stable::Tensor;

struct Work {
  const float* from;
  float* to;
  int64_t count;
  float factor;
};

td_status run(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  const float* read = third_device::sim::sim_view_as(work->from);
  float* write = third_device::sim::sim_view_as(work->to);
  for (int64_t i = 0; i < work->count; ++i) write[i] = work->factor * read[i];
  return TD_OK;
}

Tensor scale(const Tensor& input, double factor) {
  STD_TORCH_CHECK(input.scalar_type() == torch::headeronly::ScalarType::Float, "scale takes float32");
  const torch::stable::accelerator::DeviceGuard guard(input.get_device_index());
  const Tensor operand = torch::stable::clone(input);
  Tensor result = torch::stable::empty_like(operand);
  td_stream stream = nullptr;
  STD_TORCH_CHECK(third_device_current_stream(input.get_device_index(), &stream) == TD_OK, "no stream");
  int captures = 0;  // a graph would call run() again
  if (third_device_table()->graph_captures != nullptr) third_device_table()->graph_captures(stream, &captures);
  STD_TORCH_CHECK(!captures, "sim_stable::scale cannot be captured as a graph: what it enqueues runs once");
  auto work = std::make_unique<Work>(Work{static_cast<const float*>(operand.data_ptr()),
                                          static_cast<float*>(result.data_ptr()), operand.numel(),
                                          static_cast<float>(factor)});
  STD_TORCH_CHECK(third_device_table()->stream_call(stream, run, work.get()) == TD_OK, "enqueuing work");
  work.release();
  return result;
}

}  // namespace

STABLE_TORCH_LIBRARY(sim_stable, m) { m.def("scale(Tensor input, float factor) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(sim_stable, PrivateUse1, m) { m.impl("scale", TORCH_BOX(&scale)); }

PyMODINIT_FUNC PyInit_sim_stable(void) {
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "sim_stable", "torch.ops.sim_stable", -1};
  return PyModule_Create(&module);
}
