# CUDA as a first-class CMake language, the architectures, and the CUDA libraries.

# A distribution may carry nvcc together with the newest host compiler that it accepts (Debian: cuda-g++).
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  find_program(TORCH_CUDA_HOST_COMPILER NAMES cuda-g++)
  if(TORCH_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER "${TORCH_CUDA_HOST_COMPILER}")
  endif()
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "no working CUDA compiler (nvcc) found; next: install the CUDA toolkit, or set CUDACXX to nvcc and "
                      "CUDAHOSTCXX to a C++ compiler it accepts")
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF) # TORCH_CUDA_ARCH_LIST decides, by upstream's own rules
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD "${CMAKE_CXX_STANDARD}")
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
# A compiler cache reads command lines, not response files.
foreach(kind INCLUDES LIBRARIES OBJECTS)
  set(CMAKE_CUDA_USE_RESPONSE_FILE_FOR_${kind} 0)
endforeach()

find_package(CUDAToolkit REQUIRED)
set(TORCH_CUDA_VERSION "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
string(REGEX MATCH "^[0-9]+\\.[0-9]+" nvcc_version "${CMAKE_CUDA_COMPILER_VERSION}")
if(NOT nvcc_version STREQUAL TORCH_CUDA_VERSION)
  message(FATAL_ERROR "nvcc is of CUDA ${nvcc_version} (${CMAKE_CUDA_COMPILER}), the headers and libraries are of CUDA "
                      "${TORCH_CUDA_VERSION} (${CUDAToolkit_INCLUDE_DIRS}); next: set CUDACXX and CUDAToolkit_ROOT to one toolkit")
endif()

set(CUDA_VERSION "${TORCH_CUDA_VERSION}")
include("${PYTORCH_SOURCE_DIR}/cmake/Modules_CUDA_fix/upstream/FindCUDA/select_compute_arch.cmake")
string(REPLACE " " ";" arch_list "${TORCH_CUDA_ARCH_LIST}")
cuda_select_nvcc_arch_flags(TORCH_CUDA_GENCODE ${arch_list})
set(TORCH_CUDA_ARCH_FLAGS "${TORCH_CUDA_GENCODE_readable}")
if(TORCH_CUDA_GENCODE STREQUAL "")
  message(FATAL_ERROR "TORCH_CUDA_ARCH_LIST='${TORCH_CUDA_ARCH_LIST}' selects no architecture; next: e.g. '8.0;9.0+PTX'")
endif()

# --- libraries beside the toolkit

include(Beside)
if(USE_CUDNN)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS "${PYTORCH_SOURCE_DIR}/third_party/cudnn_frontend/include" "${CUDNN_FRONTEND_ROOT}"
            PATH_SUFFIXES include usr/include REQUIRED)
  torch_cuda_header_version(CUDNN_FRONTEND_VERSION "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h"
                            CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION)
endif()
if(USE_DISTRIBUTED AND USE_TENSORPIPE)
  torch_cuda_find(TENSORPIPE tensorpipe/tensorpipe_cuda.h tensorpipe_cuda "${TENSORPIPE_ROOT}")
  # The half without CUDA, where it is a library of its own; the core has loaded it before us.
  find_library(TENSORPIPE_BASE_LIBRARY tensorpipe HINTS "${TENSORPIPE_ROOT}"
               PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" "usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  if(TENSORPIPE_BASE_LIBRARY)
    set_property(TARGET dep::TENSORPIPE PROPERTY INTERFACE_LINK_LIBRARIES "${TENSORPIPE_BASE_LIBRARY}")
  endif()
endif()
find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h
          HINTS "${PYTORCH_SOURCE_DIR}/third_party/cutlass/include" "${CUTLASS_ROOT}" PATH_SUFFIXES include REQUIRED)
find_path(CUTLASS_UTIL_INCLUDE_DIR cutlass/util/packed_stride.hpp
          HINTS "${PYTORCH_SOURCE_DIR}/third_party/cutlass/tools/util/include" "${CUTLASS_ROOT}" PATH_SUFFIXES include)
