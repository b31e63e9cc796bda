# NVTX, with which PyTorch marks ranges for NVIDIA's profilers. Up to CUDA 12 it is a library (NVTX_LIBRARY); CUDA 13 has the
# headers alone (NVTX_INCLUDE_DIR), which PyTorch's sources include where TORCH_CUDA_USE_NVTX3 is defined.

set(NVTX_LIBRARY)
set(NVTX_INCLUDE_DIR)
if(TARGET CUDA::nvToolsExt)
  set(NVTX_LIBRARY CUDA::nvToolsExt)
else()
  find_path(NVTX_INCLUDE_DIR nvtx3/nvtx3.hpp NO_CACHE
            HINTS ${CUDAToolkit_INCLUDE_DIRS} "${PYTORCH_SOURCE_DIR}/third_party/NVTX/c/include")
  if(NOT NVTX_INCLUDE_DIR)
    message(FATAL_ERROR "CUDA ${CUDAToolkit_VERSION} has neither libnvToolsExt nor nvtx3/nvtx3.hpp (${CUDAToolkit_INCLUDE_DIRS}); "
                        "next: install NVTX of that toolkit")
  endif()
endif()
