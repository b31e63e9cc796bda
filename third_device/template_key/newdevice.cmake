# newdevice's toolkit: what it has otherwise than NVIDIA's. What is not said here is as cuda.cmake says it, which also tells
# what each name is for. The values below are those of a made-up vendor; put yours in their place.

include("${TORCH_CUDA_HOME}/cmake/toolkit/cuda.cmake")

torch_cuda_option(NEWDEVICE_HOME "Prefix of newdevice's toolkit, with bin/newdevicecc, include and lib" "/opt/newdevice")
torch_cuda_option(NEWDEVICE_ARCH_LIST "Architectures of newdevice's compiler" "nd1")

set(TOOLKIT_NAME newdevice)
set(TOOLKIT_LANGUAGE newdevice) # cmake/CMake*newdevice*.cmake: sources that end in .cu go to newdevicecc
set(TOOLKIT_WORD newdevice) # libc10_newdevice, libtorch_newdevice, libtorch_python_newdevice
set(TOOLKIT_PACKAGE torch_newdevice)
set(TOOLKIT_CMAKE_PACKAGE OFF)
# Headers that stand before the core's own: include/c10/macros/Macros.h has the width of a warp.
set(TOOLKIT_OVERLAY_DIRS "${CMAKE_CURRENT_LIST_DIR}/include")
set(TOOLKIT_DEFINITIONS USE_CUDA)
set(TOOLKIT_C10_DEFINITIONS C10_CUDA_BUILD_MAIN_LIB)
set(TOOLKIT_BESIDE_EVERYWHERE)
set(TOOLKIT_BESIDE_LINKED)
set(TOOLKIT_BESIDE_BINDINGS)
# The mapping of names, which `toolkit_flags` below puts before every source, see newdevice.toml.
set(NEWDEVICE_NAMES "${CMAKE_CURRENT_LIST_DIR}/newdevice_names.h")

macro(toolkit_find)
  set(ENV{NEWDEVICE_HOME} "${NEWDEVICE_HOME}")
  enable_language(newdevice)
  find_path(NEWDEVICE_INCLUDE_DIR newdevice_runtime.h HINTS "${NEWDEVICE_HOME}/include" REQUIRED)
  foreach(library rt rtc blas fft rand solver sparse)
    find_library(NEWDEVICE_${library} newdevice${library} HINTS "${NEWDEVICE_HOME}/lib" REQUIRED)
  endforeach()
  torch_cuda_header_version(TORCH_CUDA_VERSION "${NEWDEVICE_INCLUDE_DIR}/newdevice_runtime.h" NEWDEVICE_MAJOR NEWDEVICE_MINOR)
  set(TORCH_CUDA_ARCH_FLAGS "${NEWDEVICE_ARCH_LIST}")
  set(TOOLKIT_RUNTIME "${NEWDEVICE_rt}")
  set(TOOLKIT_RTC_LIBRARIES "${NEWDEVICE_rtc}" "${NEWDEVICE_rt}")
  set(TOOLKIT_LIBRARIES "${NEWDEVICE_blas}" "${NEWDEVICE_fft}" "${NEWDEVICE_rand}" "${NEWDEVICE_solver}" "${NEWDEVICE_sparse}" "${NEWDEVICE_rt}")
  # Kernels that are written for NVIDIA's matrix units, and channels of TensorPipe for CUDA.
  set(USE_FLASH_ATTENTION OFF)
  set(USE_MEM_EFF_ATTENTION OFF)
  set(USE_TENSORPIPE OFF)
endmacro()

macro(toolkit_find_beside)
  foreach(library CUDNN NCCL CUSPARSELT CUDSS CUFILE)
    set(USE_${library} OFF)
    set(${library}_WHY "not of newdevice's toolkit")
  endforeach()
endmacro()

function(toolkit_other name library reason)
  set(${reason} "" PARENT_SCOPE)
endfunction()

macro(toolkit_find_headers)
endmacro()

macro(toolkit_flags)
  set(TOOLKIT_FLAGS)
  set(TOOLKIT_DISTRIBUTED_DEFINITIONS)
  set(TOOLKIT_FIRST_INCLUDE_DIRS)
  set(TOOLKIT_INCLUDE_DIRS "${NEWDEVICE_INCLUDE_DIR}")
  set(TOOLKIT_PYTHON_LIBRARIES "${NEWDEVICE_rt}")
  set(TOOLKIT_PIP_FOLDERS)
  set(TOOLKIT_TAG "newdevice${TORCH_CUDA_VERSION}")
  set(TOOLKIT_BUILD_INFO "\"newdevice\": \"${TORCH_CUDA_VERSION}\"")
  set(TOOLKIT_SETTINGS "{\"NEWDEVICE_VERSION\", \"${TORCH_CUDA_VERSION}\"}, {\"USE_CUDA\", \"ON\"}")
  set(TOOLKIT_SUMMARY "newdevice     ${TORCH_CUDA_VERSION}, ${CMAKE_newdevice_COMPILER}")
  if(EXISTS "${NEWDEVICE_NAMES}")
    add_compile_options("SHELL:-include \"${NEWDEVICE_NAMES}\"")
  endif()
endmacro()

macro(toolkit_source_properties)
endmacro()

macro(toolkit_switches)
endmacro()

macro(toolkit_find_tracer)
  set(TOOLKIT_TRACER_MISSING "newdevice has no tracer that Kineto knows")
endmacro()
