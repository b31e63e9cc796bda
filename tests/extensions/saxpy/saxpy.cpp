// Python's side: uses c10_cuda (guard, device count), torch_cuda (context) and torch_python (tensor casters).
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

void launch_saxpy(float a, const float* x, float* y, int64_t count, cudaStream_t stream);

at::Tensor saxpy(double a, const at::Tensor& x, const at::Tensor& y) {
  TORCH_CHECK(x.is_cuda() && y.is_cuda(), "saxpy: expected CUDA tensors, got ", x.device(), " and ", y.device());
  const c10::cuda::CUDAGuard guard(x.device());
  at::Tensor result = y.contiguous().clone();
  launch_saxpy(
      static_cast<float>(a), x.contiguous().const_data_ptr<float>(), result.mutable_data_ptr<float>(), result.numel(),
      at::cuda::getCurrentCUDAStream());
  return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("saxpy", &saxpy);
  m.def("device_count", [] { return static_cast<int>(c10::cuda::device_count()); });
  m.def("has_cudnn", [] { return at::globalContext().hasCuDNN(); });
  m.def("sm_count", [] { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; });
}
