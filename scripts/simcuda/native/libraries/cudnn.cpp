// cuDNN: what handles and tensor descriptors remember, and one algorithm for every convolution.
#include <cudnn.h>

#include <cstring>

#include "cudnn_tensor.h"
#include "record.h"

struct cudnnContext {
  cudaStream_t stream;
};

#define API extern "C" __attribute__((visibility("default")))
API size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
API size_t cudnnGetCudartVersion(void) { return SIMCUDA_CUDA_VERSION; }
API const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}
API void cudnnGetLastErrorString(char* text, size_t room) {
  if (room) text[0] = 0;
}
API cudnnStatus_t cudnnGetProperty(libraryPropertyType which, int* value) {
  *value = which == MAJOR_VERSION ? CUDNN_MAJOR : which == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnCreate(cudnnHandle_t* out) {
  *out = new cudnnContext{};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  simlib::Call("cudnnSetStream") << stream;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// ---- tensor and filter descriptors: they can be asked for what they were given ----
API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* out) {
  *out = new cudnnTensorStruct{};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* out) {
  *out = new cudnnFilterStruct{};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int count,
                                             const int dims[], const int strides[]) {
  simlib::Call call("cudnnSetTensorNdDescriptor");
  call << type << count;
  descriptor->type = type;
  descriptor->dims.assign(dims, dims + count);
  descriptor->strides.assign(strides, strides + count);
  for (int i = 0; i < count; i++) call << dims[i] << strides[i];
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor, int room, cudnnDataType_t* type,
                                             int* count, int dims[], int strides[]) {
  *type = descriptor->type;
  *count = int(descriptor->dims.size());
  for (int i = 0; i < room && i < *count; i++) dims[i] = descriptor->dims[i], strides[i] = descriptor->strides[i];
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                             cudnnTensorFormat_t format, int count, const int dims[]) {
  simlib::Call call("cudnnSetFilterNdDescriptor");
  call << type << format << count;
  descriptor->type = type, descriptor->format = format;
  descriptor->dims.assign(dims, dims + count);
  for (int i = 0; i < count; i++) call << dims[i];
  return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor, int room, cudnnDataType_t* type,
                                             cudnnTensorFormat_t* format, int* count, int dims[]) {
  *type = descriptor->type, *format = descriptor->format;
  *count = int(descriptor->dims.size());
  for (int i = 0; i < room && i < *count; i++) dims[i] = descriptor->dims[i];
  return CUDNN_STATUS_SUCCESS;
}

// ---- algorithms ----
namespace {
template <class Result, class Algorithm>
cudnnStatus_t one(const char* name, int wanted, int* found, Result* out, Algorithm algorithm) {
  simlib::Call call(name);
  call << wanted;
  memset(out, 0, sizeof *out);
  out->algo = algorithm;
  out->status = CUDNN_STATUS_SUCCESS;
  out->time = 1;
  out->memory = 512;
  out->determinism = CUDNN_DETERMINISTIC;
  *found = 1;
  return CUDNN_STATUS_SUCCESS;
}
}  // namespace
API cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
    const cudnnFilterDescriptor_t, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, const int wanted,
    int* found, cudnnConvolutionFwdAlgoPerf_t* out) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}
API cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, const int wanted,
    int* found, cudnnConvolutionBwdDataAlgoPerf_t* out) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}
API cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t, const int wanted,
    int* found, cudnnConvolutionBwdFilterAlgoPerf_t* out) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
API cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(cudnnHandle_t, const cudnnTensorDescriptor_t, const void*,
    const cudnnFilterDescriptor_t, const void*, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, void*,
    const int wanted, int* found, cudnnConvolutionFwdAlgoPerf_t* out, void*, size_t) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}
API cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(cudnnHandle_t, const cudnnFilterDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnConvolutionDescriptor_t, const cudnnTensorDescriptor_t, void*,
    const int wanted, int* found, cudnnConvolutionBwdDataAlgoPerf_t* out, void*, size_t) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}
API cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(cudnnHandle_t, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnConvolutionDescriptor_t, const cudnnFilterDescriptor_t, void*,
    const int wanted, int* found, cudnnConvolutionBwdFilterAlgoPerf_t* out, void*, size_t) {
  return one(__func__, wanted, found, out, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
