# TORCH_CUDA_KERNELS=DIR: the libraries with the kernels are not compiled, only our bindings are, beside them.
#
#   DIR/kernels.json  whose they are (optional): "kind" becomes part of the wheel's version, the file part of the wheel
#   DIR/lib           libc10_cuda.so, libtorch_cuda.so, libcaffe2_nvrtc.so, and what libtorch_cuda opens besides
#   DIR/include       the configuration headers that they were compiled with
#   DIR/licenses      the texts under which they may be passed on
#   DIR/cuda          NVIDIA's headers and libraries, as pip lays them out (nvidia/<name>/include, .../lib)
#
# `decouple build --kernels official` makes such a folder. No nvcc, no torchgen: what is compiled here is host C++.

set(CONFIG_DIR "${TORCH_CUDA_KERNELS}/include")
set(KERNELS_KIND "imported")
if(EXISTS "${TORCH_CUDA_KERNELS}/kernels.json")
  file(READ "${TORCH_CUDA_KERNELS}/kernels.json" kernels_json)
  string(JSON KERNELS_KIND GET "${kernels_json}" kind)
endif()
foreach(needed lib/libc10_cuda.so lib/libtorch_cuda.so lib/libcaffe2_nvrtc.so include/ATen/cuda/CUDAConfig.h)
  if(NOT EXISTS "${TORCH_CUDA_KERNELS}/${needed}")
    message(FATAL_ERROR "TORCH_CUDA_KERNELS=${TORCH_CUDA_KERNELS} has no ${needed}; next: make the folder with "
                        "decouple build --kernels official")
  endif()
endforeach()
file(GLOB KERNEL_LIBRARIES CONFIGURE_DEPENDS "${TORCH_CUDA_KERNELS}/lib/*.so*")
foreach(library c10_cuda torch_cuda)
  add_library(${library} SHARED IMPORTED)
  set_target_properties(${library} PROPERTIES IMPORTED_LOCATION "${TORCH_CUDA_KERNELS}/lib/lib${library}.so")
endforeach()

# What they were compiled for and with, out of their own configuration header.
file(STRINGS "${CONFIG_DIR}/ATen/cuda/CUDAConfig.h" config_lines REGEX "#define (AT_|NVCC_FLAGS)")
string(REGEX MATCHALL "code=(sm|compute)_[0-9]+a?" codes "${config_lines}")
list(REMOVE_DUPLICATES codes)
list(TRANSFORM codes REPLACE "code=" "")
list(JOIN codes " " TORCH_CUDA_ARCH_FLAGS)
foreach(feature CUDNN CUSPARSELT MAGMA CUDSS CUFILE UCC)
  set(asked "${USE_${feature}}")
  set(USE_${feature} OFF)
  if(config_lines MATCHES "AT_${feature}_ENABLED\\(\\) 1")
    set(USE_${feature} ON)
  elseif(asked AND NOT asked MATCHES "^[Aa][Uu][Tt][Oo]$" AND NOT feature STREQUAL "CUDNN")
    message(FATAL_ERROR "USE_${feature}=${asked}: the kernels in ${TORCH_CUDA_KERNELS} are compiled without it; next: USE_${feature}=0, "
                        "or compile the kernels")
  endif()
  set(${feature}_WHY "the kernels have it not")
endforeach()
set(NCCL_WHY "USE_NCCL=${USE_NCCL}")

# CUDA's headers and the few libraries that the bindings call themselves.
file(GLOB CUDAToolkit_INCLUDE_DIRS "${TORCH_CUDA_KERNELS}/cuda/nvidia/*/include" "${TORCH_CUDA_KERNELS}/cuda/*/include")
file(GLOB cuda_lib_dirs "${TORCH_CUDA_KERNELS}/cuda/nvidia/*/lib" "${TORCH_CUDA_KERNELS}/cuda/*/lib")
find_path(CUDART_INCLUDE_DIR cuda_runtime_api.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
if(NOT CUDART_INCLUDE_DIR)
  message(FATAL_ERROR "${TORCH_CUDA_KERNELS}/cuda has no cuda_runtime_api.h; next: make the folder with decouple build --kernels official")
endif()
file(STRINGS "${CUDART_INCLUDE_DIR}/cuda_runtime_api.h" cudart_line REGEX "#define CUDART_VERSION +[0-9]+" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+ *$" cudart_number "${cudart_line}")
math(EXPR CUDAToolkit_VERSION_MAJOR "${cudart_number} / 1000")
math(EXPR CUDAToolkit_VERSION_MINOR "${cudart_number} % 1000 / 10")
set(TORCH_CUDA_VERSION "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
set(CUDAToolkit_VERSION "${TORCH_CUDA_VERSION}")

# Defines the imported target NAME from a library in the folder, by a glob on its file name.
function(torch_cuda_import name pattern)
  set(found)
  foreach(folder IN LISTS cuda_lib_dirs)
    file(GLOB here "${folder}/${pattern}")
    list(APPEND found ${here})
  endforeach()
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "${TORCH_CUDA_KERNELS}/cuda holds ${count} libraries ${pattern}, expected one; next: make the folder anew")
  endif()
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${found}")
endfunction()
torch_cuda_import(CUDA::cudart "libcudart.so.*")
torch_cuda_import(CUDA::nvToolsExt "libnvToolsExt.so.*")
if(USE_CUDNN)
  torch_cuda_import(dep::CUDNN "libcudnn.so.*")
  find_path(CUDNN_INCLUDE_DIR cudnn.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
  torch_cuda_header_version(CUDNN_VERSION "${CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
endif()
if(USE_NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH REQUIRED)
  torch_cuda_header_version(NCCL_VERSION "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
endif()
if(USE_CUSPARSELT)
  find_path(CUSPARSELT_INCLUDE_DIR cusparseLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  torch_cuda_header_version(CUSPARSELT_VERSION "${CUSPARSELT_INCLUDE_DIR}/cusparseLt.h"
                            CUSPARSELT_VER_MAJOR CUSPARSELT_VER_MINOR CUSPARSELT_VER_PATCH)
endif()
