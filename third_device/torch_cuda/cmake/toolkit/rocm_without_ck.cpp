// Matrix products by composable kernel, which this build leaves out: HIPBlas.cpp calls them where a user prefers "ck".

#include <ATen/native/hip/ck_bgemm.h>
#include <ATen/native/hip/ck_gemm.h>
#include <c10/util/Exception.h>

namespace at::native {

namespace {

[[noreturn]] void refuse_product() {
  TORCH_CHECK(
      false,
      "torch_hip was built without composable kernel; next: torch.backends.cuda.preferred_blas_library('cublas')");
}

} // namespace

template <>
void gemm_internal_ck<double>(CUDABLAS_GEMM_ARGTYPES(double)) {
  refuse_product();
}

template <>
void gemm_internal_ck<float>(CUDABLAS_GEMM_ARGTYPES(float)) {
  refuse_product();
}

template <>
void gemm_internal_ck<at::Half>(CUDABLAS_GEMM_ARGTYPES(at::Half)) {
  refuse_product();
}

template <>
void gemm_internal_ck<at::BFloat16>(CUDABLAS_GEMM_ARGTYPES(at::BFloat16)) {
  refuse_product();
}

template <>
void bgemm_internal_ck<at::BFloat16>(CUDABLAS_BGEMM_ARGTYPES(at::BFloat16)) {
  refuse_product();
}

} // namespace at::native
