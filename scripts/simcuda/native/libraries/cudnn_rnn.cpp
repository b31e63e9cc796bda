// cuDNN's recurrent networks: where each matrix and bias lies in the weight space. The layout is this stand-in's own:
// all matrices, layer by layer, then all biases; PyTorch asks for every address and assumes only that they are dense.
#include <cudnn.h>

#include <cstdint>

#include "cudnn_tensor.h"
#include "record.h"

struct cudnnRNNStruct {
  int cell, bias, directions, input, hidden, projected, layers;
  size_t element;

  int gates() const { return cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1; }
  bool projects() const { return projected != hidden; }
  int columns(int pseudo_layer, int id) const {  // of matrix `id` (2 * gates of them, and the projection)
    int layer = pseudo_layer / directions;
    return id >= 2 * gates() ? hidden : id >= gates() ? projected : layer ? directions * projected : input;
  }
  int rows(int id) const { return id >= 2 * gates() ? projected : hidden; }
  int matrices() const { return 2 * gates() + (projects() ? 1 : 0); }
  size_t size_until(int pseudo_layer, int id) const {
    size_t size = 0;
    for (int layer = 0; layer <= pseudo_layer && layer < layers * directions; layer++)
      for (int i = 0; i < matrices() && (layer < pseudo_layer || i < id); i++) size += size_t(rows(i)) * columns(layer, i);
    return size * element;
  }
  size_t all_matrices() const { return size_until(layers * directions, 0); }
  size_t bias_offset(int pseudo_layer, int id) const {
    return all_matrices() + (size_t(pseudo_layer) * 2 * gates() + id) * hidden * element;
  }
};

#define API extern "C" __attribute__((visibility("default"))) cudnnStatus_t
API cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* out) {
  *out = new cudnnRNNStruct{};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t, cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                             cudnnDirectionMode_t direction, cudnnRNNInputMode_t, cudnnDataType_t type, cudnnDataType_t,
                             cudnnMathType_t, int32_t input, int32_t hidden, int32_t projected, int32_t layers,
                             cudnnDropoutDescriptor_t, uint32_t) {
  simlib::Call call("cudnnSetRNNDescriptor_v8");
  call << cell << bias << direction << type << input << hidden << projected << layers;
  size_t element = type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
  *rnn = {cell, bias != CUDNN_RNN_NO_BIAS, direction == CUDNN_BIDIRECTIONAL ? 2 : 1, input, hidden, projected, layers, element};
  return CUDNN_STATUS_SUCCESS;
}
API cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t rnn, size_t* size) {
  *size = rnn->all_matrices();
  if (rnn->bias) *size += size_t(rnn->layers) * rnn->directions * 2 * rnn->gates() * rnn->hidden * rnn->element;
  return CUDNN_STATUS_SUCCESS;
}
API cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t rnn, int32_t pseudo_layer, size_t, const void* weights,
                            int32_t id, cudnnTensorDescriptor_t matrix, void** matrix_at, cudnnTensorDescriptor_t bias,
                            void** bias_at) {
  cudnnDataType_t type = rnn->element == 8 ? CUDNN_DATA_DOUBLE : rnn->element == 4 ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF;
  bool has_matrix = id < rnn->matrices(), has_bias = rnn->bias && id < 2 * rnn->gates();
  if (matrix) {
    matrix->type = type;
    matrix->dims = {1, has_matrix ? rnn->rows(id) : 0, has_matrix ? rnn->columns(pseudo_layer, id) : 0};
    matrix->strides = {matrix->dims[1] * matrix->dims[2], matrix->dims[2], 1};
    *matrix_at = has_matrix ? (char*)weights + rnn->size_until(pseudo_layer, id) : nullptr;
  }
  if (bias) {
    bias->type = type;
    bias->dims = {1, has_bias ? rnn->hidden : 0, has_bias ? 1 : 0};
    bias->strides = {bias->dims[1], 1, 1};
    *bias_at = has_bias ? (char*)weights + rnn->bias_offset(pseudo_layer, id) : nullptr;
  }
  return CUDNN_STATUS_SUCCESS;
}
API cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t, cudnnForwardMode_t, cudnnRNNDataDescriptor_t,
                              size_t* work, size_t* reserve) {
  if (work) *work = 512;
  if (reserve) *reserve = 512;
  return CUDNN_STATUS_SUCCESS;
}
