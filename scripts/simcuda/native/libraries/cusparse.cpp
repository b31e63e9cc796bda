// cuSPARSE: what a handle and the descriptors remember.
#include <cusparse.h>

#include "record.h"

struct cusparseContext {
  cudaStream_t stream;
  cusparsePointerMode_t pointers;
};

#define API extern "C" __attribute__((visibility("default")))
API cusparseStatus_t cusparseCreate(cusparseHandle_t* out) {
  *out = new cusparseContext{};
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  delete handle;
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetVersion(cusparseHandle_t, int* version) {
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  simlib::Call("cusparseSetStream") << stream;
  handle->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
  simlib::Call("cusparseSetPointerMode") << mode;
  handle->pointers = mode;
  return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t* mode) {
  *mode = handle->pointers;
  return CUSPARSE_STATUS_SUCCESS;
}
API const char* cusparseGetErrorName(cusparseStatus_t status) {
  return status == CUSPARSE_STATUS_SUCCESS ? "CUSPARSE_STATUS_SUCCESS" : "CUSPARSE_STATUS_NOT_SUPPORTED";
}
API const char* cusparseGetErrorString(cusparseStatus_t status) {
  return status == CUSPARSE_STATUS_SUCCESS ? "success"
         : status == CUSPARSE_STATUS_NOT_SUPPORTED ? "operation not supported"
                                                   : "an error of the simulated cuSPARSE";
}
