// The runtime of the CUDA key's device as PyTorch wraps it: CUDA's, or what hipify made of it.
#pragma once
#ifdef USE_ROCM
#include <ATen/hip/HIPGeneratorImpl.h>
#include <c10/hip/HIPFunctions.h>
#include <c10/hip/HIPStream.h>
#else
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace shadow {

#ifdef USE_ROCM
namespace device_api = c10::hip;
inline void* current_stream(c10::DeviceIndex device) { return c10::hip::getCurrentHIPStream(device).stream(); }
#else
namespace device_api = c10::cuda;
inline void* current_stream(c10::DeviceIndex device) { return c10::cuda::getCurrentCUDAStream(device).stream(); }
#endif

}  // namespace shadow
