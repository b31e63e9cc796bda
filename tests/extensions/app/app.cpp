// Says what a C++ program sees of CUDA, and doubles a tensor where there is a GPU.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <iostream>
#include <string>

void twice(float* data, int64_t count, cudaStream_t stream);

int main() {
  std::cout << "cuDNN " << at::detail::getCUDAHooks().versionCuDNN() << ", devices " << int(at::cuda::device_count()) << ", ";
  try {
    auto x = at::ones({4}, at::device(at::kCUDA).dtype(at::kFloat));
    twice(x.data_ptr<float>(), x.numel(), at::cuda::getCurrentCUDAStream());
    std::cout << "kernel launched\n";
  } catch (const c10::Error& error) {
    std::cout << std::string(error.what_without_backtrace()).substr(0, 40) << '\n';
  }
}
