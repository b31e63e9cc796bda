#include <c10/cuda/CUDAException.h>

#include <cstdint>

__global__ void saxpy_kernel(float a, const float* x, float* y, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    y[i] += a * x[i];
  }
}

void launch_saxpy(float a, const float* x, float* y, int64_t count, cudaStream_t stream) {
  if (count == 0) {
    return;
  }
  constexpr int threads = 256;
  saxpy_kernel<<<static_cast<unsigned>((count + threads - 1) / threads), threads, 0, stream>>>(a, x, y, count);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
