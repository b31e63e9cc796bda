// cuBLAS: what a handle remembers. Products are computed by the shadows.
#include <cublas_v2.h>

#include "record.h"

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
  cublasPointerMode_t pointers;
  cublasAtomicsMode_t atomics;
};

#define API extern "C" __attribute__((visibility("default"))) cublasStatus_t
API cublasCreate_v2(cublasHandle_t* out) {
  *out = new cublasContext{};
  return CUBLAS_STATUS_SUCCESS;
}
API cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  simlib::Call("cublasSetStream_v2") << stream;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  simlib::Call("cublasSetMathMode") << mode;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  simlib::Call("cublasSetPointerMode_v2") << mode;
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  simlib::Call("cublasSetAtomicsMode") << mode;
  handle->atomics = mode;
  return CUBLAS_STATUS_SUCCESS;
}
API cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  *mode = handle->atomics;
  return CUBLAS_STATUS_SUCCESS;
}
extern "C" __attribute__((visibility("default"))) const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the simulated cuBLAS";
}
extern "C" __attribute__((visibility("default"))) const char* cublasGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
