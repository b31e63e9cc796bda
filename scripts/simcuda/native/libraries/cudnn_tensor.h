// What cuDNN's tensor and filter descriptors remember.
#pragma once
#include <cudnn.h>

#include <vector>

struct cudnnTensorStruct {
  cudnnDataType_t type;
  std::vector<int> dims, strides;
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  std::vector<int> dims;
};
