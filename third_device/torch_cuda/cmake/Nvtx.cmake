# dep::NVTX, with which PyTorch marks ranges for NVIDIA's profilers. Up to CUDA 12 it is a library; CUDA 13 has the headers
# alone, which PyTorch's sources include where TORCH_CUDA_USE_NVTX3 is defined (NVTX_INCLUDE_DIR is set then).

add_library(dep::NVTX INTERFACE IMPORTED)
set(NVTX_INCLUDE_DIR)
if(TARGET CUDA::nvToolsExt)
  set_target_properties(dep::NVTX PROPERTIES INTERFACE_LINK_LIBRARIES CUDA::nvToolsExt)
else()
  find_path(NVTX_INCLUDE_DIR nvtx3/nvtx3.hpp NO_CACHE
            HINTS ${CUDAToolkit_INCLUDE_DIRS} "${PYTORCH_SOURCE_DIR}/third_party/NVTX/c/include")
  if(NOT NVTX_INCLUDE_DIR)
    message(FATAL_ERROR "CUDA ${CUDAToolkit_VERSION} has neither libnvToolsExt nor nvtx3/nvtx3.hpp (${CUDAToolkit_INCLUDE_DIRS}); "
                        "next: install NVTX of that toolkit")
  endif()
endif()
