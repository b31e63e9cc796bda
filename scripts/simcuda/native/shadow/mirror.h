// CPU tensors on the memory of CUDA tensors: the same bytes, sizes and strides. Device memory is host memory here.
#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace shadow {

// `t` itself if it is not on the device. Sparse and nested tensors are made of the mirrors of their parts.
at::Tensor mirror(const at::Tensor& t);

// Can `mirror` do it?
bool can_mirror(const at::Tensor& t);

// Of nested tensors the sizes of all parts.
bool same_shape(const at::Tensor& one, const at::Tensor& other);

// Put a CPU result where the device's lies; sizes are equal. Types may differ.
void put(const at::Tensor& device, const at::Tensor& value);

// A new CUDA tensor with that value, for results whose size only the CPU knows.
at::Tensor to_device(const at::Tensor& value, c10::Device device);

}  // namespace shadow
