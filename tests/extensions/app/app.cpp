// Says what a C++ program sees of CUDA, opens NVRTC as ATen does, and doubles and inverts a tensor where there is a GPU.
#include <ATen/DynamicLibrary.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/inverse.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <iostream>
#include <string>

void twice(float* data, int64_t count, cudaStream_t stream);

int main() {
  // ATen/cuda/detail/LazyNVRTC.cpp has this name. It is code of libtorch_cpu that opens it.
  at::DynamicLibrary nvrtc(("libnvrtc.so." + std::to_string(CUDART_VERSION / 1000)).c_str());
  std::cout << "cuDNN " << at::detail::getCUDAHooks().versionCuDNN() << ", devices " << int(at::cuda::device_count()) << ", ";
  try {
    auto x = at::ones({4}, at::device(at::kCUDA).dtype(at::kFloat));
    twice(x.data_ptr<float>(), x.numel(), at::cuda::getCurrentCUDAStream());
    at::inverse(at::eye(2, x.options())); // libtorch_cuda_linalg, where that is apart from libtorch_cuda
    std::cout << "kernel launched\n";
  } catch (const c10::Error& error) {
    std::cout << std::string(error.what_without_backtrace()).substr(0, 40) << '\n';
  }
}
