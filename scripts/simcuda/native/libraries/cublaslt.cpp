// cuBLASLt: one algorithm for everything.
#include <cublasLt.h>

#include <cstring>

#include "record.h"

#define API extern "C" __attribute__((visibility("default")))
API size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
API size_t cublasLtGetCudartVersion(void) { return SIMCUDA_CUDA_VERSION; }
API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                  cublasLtMatmulPreference_t, int wanted,
                                                  cublasLtMatmulHeuristicResult_t* out, int* found) {
  simlib::Call call("cublasLtMatmulAlgoGetHeuristic");
  call << wanted;
  memset(out, 0, sizeof *out);
  *found = wanted > 0;
  return CUBLAS_STATUS_SUCCESS;
}
API const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the simulated cuBLASLt";
}
API const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}
