# NVIDIA's CUDA: what is this toolkit's and nobody else's. Another vendor on the CUDA key fills in a file of this form.
#
# The modules beside this folder name no vendor. They read the variables TOOLKIT_*, and call, each at its moment,
#
#   toolkit_path(RESULT NAME)    where upstream's build of this vendor has the file that CUDA's build calls NAME
#   toolkit_find()               compilers and languages, version, architectures, the toolkit's headers and libraries
#   toolkit_find_beside()        the vendor's libraries beside it, which are choices (cmake/Options.cmake)
#   toolkit_other(...)           why a library beside it is not of this toolkit
#   toolkit_find_headers()       headers without a library
#   toolkit_flags()              flags of the device compiler, where headers lie, pip's folders
#   toolkit_configure_headers()  the headers with what was configured
#   toolkit_listed_kernels(RESULT)  what build_variables.bzl lists for this vendor
#   toolkit_runtime_sources(), toolkit_torch_sources(), toolkit_python_sources()   sources that only this vendor has
#   toolkit_bindings()           what only this vendor's bindings are compiled from and with
#   toolkit_source_properties()  what single sources are compiled with
#   toolkit_switches()           which sources are told of a library beside the toolkit
#   toolkit_find_tracer()        the tracer behind torch.profiler, or why there is none
#   toolkit_tracer()             what it is compiled and linked with

set(TOOLKIT_NAME CUDA)
set(TOOLKIT_LANGUAGE CUDA)
set(TOOLKIT_WORD cuda) # libc10_cuda, libtorch_cuda, libtorch_python_cuda
set(TOOLKIT_PACKAGE torch_cuda)
# How relocated files are shown at upstream's paths, a module of torch_cuda_build: as they are, so links do.
set(TOOLKIT_SHADOW relocation)
set(TOOLKIT_COPIES OFF)
set(TOOLKIT_TORCHGEN_FLAGS)
set(TOOLKIT_OVERLAY_DIRS) # headers that stand before the core's own
set(TOOLKIT_SLICE_FLAGS)
set(TOOLKIT_CMAKE_PACKAGE ON) # find_package(TorchCUDA), and what find_package(Torch) then asks for
set(TOOLKIT_TORCH_VERSION) # what torch.version is to say besides; `cuda` is what the bindings were compiled with
set(TOOLKIT_DEFINITIONS USE_CUDA FLASHATTENTION_DISABLE_ALIBI
    CUTLASS_ENABLE_TENSOR_CORE_MMA=1 CUTLASS_ENABLE_SM90_EXTENDED_MMA_SHAPES=1 CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED)
set(TOOLKIT_C10_DEFINITIONS C10_CUDA_BUILD_MAIN_LIB PYTORCH_C10_DRIVER_API_SUPPORTED)
set(TOOLKIT_TORCH_DEFINITIONS TORCH_CUDA_BUILD_MAIN_LIB)
set(TOOLKIT_RUNTIME CUDA::cudart)
set(TOOLKIT_RTC_LIBRARIES CUDA::nvrtc CUDA::cuda_driver)
set(TOOLKIT_LIBRARIES CUDA::cublas CUDA::cublasLt CUDA::cufft CUDA::curand CUDA::cusolver CUDA::cusparse CUDA::cudart)
# Of BESIDE: headers for every source; what libtorch_cuda is linked with, in this order; what the bindings are linked with.
set(TOOLKIT_BESIDE_EVERYWHERE CUDNN NCCL)
set(TOOLKIT_BESIDE_LINKED CUDNN NCCL MAGMA CUSPARSELT CUDSS UCC)
set(TOOLKIT_BESIDE_BINDINGS CUDNN CUFILE)
# The tracer: its name in ours, Kineto's list of sources, a source of it, and how its sources are compiled. PyTorch sets the
# core's clock converter, so ours has another name and asks that.
set(TOOLKIT_TRACER cupti)
set(TOOLKIT_TRACER_LIST get_libkineto_cupti_srcs)
set(TOOLKIT_TRACER_SOURCE src/CuptiActivityProfiler.cpp)
set(TOOLKIT_TRACER_DEFINITIONS HAS_CUPTI get_time_converter=cupti_time_converter)

function(toolkit_path result name)
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

macro(toolkit_find)
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
endmacro()

# <name>_ROW, see Beside.cmake; the oldest version is that of
#   CUDNN       cmake/public/cuda.cmake             NCCL    NCCLUtils.hpp refuses to compile with an older one
#   CUSPARSELT  upstream's images for CUDA 11.8 (.ci/docker/common/install_cusparselt.sh)
#   CUDSS       the oldest that the sources of 2.6 were compiled with here
set(CUDNN_ROW cudnn_version.h CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL 8.1)
set(NCCL_ROW nccl.h NCCL_MAJOR NCCL_MINOR NCCL_PATCH 2.7)
set(CUSPARSELT_ROW cusparseLt.h CUSPARSELT_VER_MAJOR CUSPARSELT_VER_MINOR CUSPARSELT_VER_PATCH 0.4)
set(CUDSS_ROW cudss.h "CUDSS_VER(SION)?_MAJOR" "CUDSS_VER(SION)?_MINOR" "CUDSS_VER(SION)?_PATCH" 0.4)

# Why a library is not of this CUDA; empty when nothing speaks against it. It needs libraries of the toolkit by name, or has
# none of them but says what it was compiled with: NCCL in a text, cuDNN when it is asked.
function(toolkit_other name library reason)
  set(${reason} "" PARENT_SCOPE)
  torch_cuda_dynamic("${library}" soname needed)
  foreach(file IN LISTS needed)
    # as FindCUDAToolkit names what it found: CUDA_CUDART, CUDA_cublas_LIBRARY
    string(REGEX REPLACE "^lib([A-Za-z]+)\\.so\\..*" "\\1" library_name "${file}")
    foreach(ours "${CUDA_${library_name}_LIBRARY}" "${CUDA_CUDART}")
      if(NOT EXISTS "${ours}")
        continue()
      endif()
      torch_cuda_dynamic("${ours}" own _)
      string(REGEX REPLACE "\\.so\\..*" "" stem "${own}")
      if(file MATCHES "^${stem}\\.so\\." AND NOT own STREQUAL file)
        set(${reason} "${library} needs ${file}, CUDA ${CUDAToolkit_VERSION} has ${own}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  set(made "")
  if(name STREQUAL "NCCL")
    file(STRINGS "${library}" said REGEX "NCCL version [0-9.]+\\+cuda[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "\\+cuda([0-9]+[0-9.]*)" _ "${said}")
    set(made "${CMAKE_MATCH_1}")
  elseif(name STREQUAL "CUDNN")
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c
              "import ctypes, sys; v = ctypes.CDLL(sys.argv[1]).cudnnGetCudartVersion(); print(f'{v // 1000}.{v % 1000 // 10}', end='')"
              "${library}"
      OUTPUT_VARIABLE made ERROR_QUIET) # one that cannot be loaded here says nothing
  endif()
  string(REGEX MATCH "^[0-9]+" major "${made}")
  if(major AND NOT major EQUAL CUDAToolkit_VERSION_MAJOR)
    set(${reason} "${library} is made for CUDA ${made}, the toolkit is CUDA ${CUDAToolkit_VERSION}" PARENT_SCOPE)
  endif()
endfunction()

macro(toolkit_find_beside)
  torch_cuda_beside(CUDNN "cuDNN" cudnn.h cudnn CUDNN_ROOT)
  torch_cuda_beside(NCCL "NCCL" nccl.h nccl NCCL_ROOT)
  torch_cuda_beside(CUSPARSELT "cuSPARSELt" cusparseLt.h cusparseLt CUSPARSELT_ROOT CUDAToolkit_LIBRARY_ROOT)
  torch_cuda_beside(CUDSS "cuDSS" cudss.h cudss CUDSS_ROOT)
  torch_cuda_beside(CUFILE "cuFile" cufile.h cufile CUFILE_ROOT CUDAToolkit_LIBRARY_ROOT)
endmacro()

# Headers without a library, which every build has.
macro(toolkit_find_headers)
  if(USE_CUDNN)
    find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
              HINTS "${PYTORCH_SOURCE_DIR}/third_party/cudnn_frontend/include" "${CUDNN_FRONTEND_ROOT}"
              PATH_SUFFIXES include usr/include REQUIRED)
    torch_cuda_header_version(CUDNN_FRONTEND_VERSION "${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h"
                              CUDNN_FRONTEND_MAJOR_VERSION CUDNN_FRONTEND_MINOR_VERSION CUDNN_FRONTEND_PATCH_VERSION)
  endif()
  find_path(CUTLASS_INCLUDE_DIR cutlass/cutlass.h
            HINTS "${PYTORCH_SOURCE_DIR}/third_party/cutlass/include" "${CUTLASS_ROOT}" PATH_SUFFIXES include REQUIRED)
  find_path(CUTLASS_UTIL_INCLUDE_DIR cutlass/util/packed_stride.hpp
            HINTS "${PYTORCH_SOURCE_DIR}/third_party/cutlass/tools/util/include" "${CUTLASS_ROOT}" PATH_SUFFIXES include)
endmacro()

macro(toolkit_flags)
  # The warning and language switches of upstream's cmake/public/cuda.cmake and cmake/Dependencies.cmake.
  set(NVCC_FLAGS
    ${TORCH_CUDA_GENCODE} -Xcudafe
    --diag_suppress=cc_clobber_ignored,--diag_suppress=field_without_dll_interface,--diag_suppress=base_class_has_different_dll_interface,--diag_suppress=dll_interface_conflict_none_assumed,--diag_suppress=dll_interface_conflict_dllexport_assumed,--diag_suppress=bad_friend_decl
    --expt-relaxed-constexpr --expt-extended-lambda -Wno-deprecated-gpu-targets -Wno-deprecated-declarations
    -Xfatbin -compress-all
    -DLIBCUDACXX_ENABLE_SIMPLIFIED_COMPLEX_OPERATIONS -DCUB_WRAPPED_NAMESPACE=at_cuda_detail -DCUDA_HAS_FP16=1
    -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__)
  separate_arguments(more_nvcc_flags UNIX_COMMAND "${TORCH_NVCC_FLAGS}")
  set(TOOLKIT_FLAGS ${NVCC_FLAGS} ${more_nvcc_flags})
  set(TOOLKIT_DISTRIBUTED_DEFINITIONS $<$<BOOL:${USE_NCCL}>:USE_C10D_NCCL>)
  set(TOOLKIT_FIRST_INCLUDE_DIRS "${CUTLASS_INCLUDE_DIR}" "${CUTLASS_UTIL_INCLUDE_DIR}")
  include(Nvtx)
  list(APPEND TOOLKIT_LIBRARIES ${NVTX_LIBRARY})
  set(TOOLKIT_PYTHON_LIBRARIES CUDA::cudart ${NVTX_LIBRARY})
  # of a build over imported kernels, too, which runs no toolkit_find()
  set(TOOLKIT_TAG "cu${CUDAToolkit_VERSION_MAJOR}${CUDAToolkit_VERSION_MINOR}")
  set(TOOLKIT_BUILD_INFO "\"cuda\": \"${TORCH_CUDA_VERSION}\",\n  \"cuda_toolkit\": \"${CUDAToolkit_VERSION}\"")
  set(TOOLKIT_SETTINGS "{\"CUDA_VERSION\", \"${TORCH_CUDA_VERSION}\"}, {\"CUDNN_VERSION\", \"${CUDNN_VERSION}\"}, {\"USE_CUDA\", \"ON\"}")
  set(TOOLKIT_SUMMARY "CUDA          ${CUDAToolkit_VERSION}, ${CMAKE_CUDA_COMPILER}, host compiler ${CMAKE_CUDA_HOST_COMPILER}"
      "cuDNN front   ${CUDNN_FRONTEND_VERSION} ${CUDNN_FRONTEND_INCLUDE_DIR}")
  list(APPEND TOOLKIT_DEFINITIONS $<$<BOOL:${NVTX_INCLUDE_DIR}>:TORCH_CUDA_USE_NVTX3>)
  set(TOOLKIT_INCLUDE_DIRS "${CUDNN_FRONTEND_INCLUDE_DIR}" "${NVTX_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
  # below site-packages: the nvidia-*-cu12 packages, where nvidia-cusparselt and nvidia-cudss put themselves, and all of CUDA 13
  set(TOOLKIT_PIP_FOLDERS)
  foreach(package cublas cuda_cupti cuda_nvrtc cuda_runtime cudnn cufft cufile curand cusolver cusparse nccl nvjitlink nvtx)
    list(APPEND TOOLKIT_PIP_FOLDERS "nvidia/${package}/lib")
  endforeach()
  if(USE_CUSPARSELT)
    list(APPEND TOOLKIT_PIP_FOLDERS "cusparselt/lib")
  endif()
  if(USE_CUDSS OR CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND TOOLKIT_PIP_FOLDERS "nvidia/cu${CUDAToolkit_VERSION_MAJOR}/lib")
  endif()
endmacro()

macro(toolkit_configure_headers)
  torch_cuda_01(AT_CUDNN_ENABLED USE_CUDNN)
  torch_cuda_01(AT_CUSPARSELT_ENABLED USE_CUSPARSELT)
  set(AT_ROCM_ENABLED 0)
  set(NVCC_FLAGS_EXTRA "${TORCH_CUDA_GENCODE}")
  set(C10_CUDA_BUILD_SHARED_LIBS ON)
  torch_cuda_resolve(config_in aten/src/ATen/cuda/CUDAConfig.h.in)
  configure_file("${config_in}" "${CONFIG_DIR}/ATen/cuda/CUDAConfig.h")
  torch_cuda_resolve(config_in c10/cuda/impl/cuda_cmake_macros.h.in)
  configure_file("${config_in}" "${CONFIG_DIR}/c10/cuda/impl/cuda_cmake_macros.h")
endmacro()

# What only this vendor's libraries and compiler have of the sources (see Sources.cmake).
macro(toolkit_runtime_sources)
  if(USE_CUDNN)
    torch_cuda_glob(cudnn_sources "${ATEN}/cudnn/*.cpp")
    list(APPEND ATEN_RUNTIME_SOURCES ${cudnn_sources})
  endif()
endmacro()

macro(toolkit_listed_kernels result)
  torch_cuda_filelist(${result} aten_cuda_cu_source_list aten_cuda_with_sort_by_key_source_list aten_cuda_cu_with_sort_by_key_source_list)
endmacro()

macro(toolkit_torch_sources)
  if(USE_NCCL)
    torch_cuda_resolve(nccl_sources torch/csrc/cuda/nccl.cpp)
    list(APPEND TORCH_SOURCES ${nccl_sources})
  endif()
  if(USE_NVSHMEM)
    torch_cuda_glob(nvshmem_sources "torch/csrc/distributed/c10d/*nvshmem*" "torch/csrc/distributed/c10d/*/*nvshmem*")
    set(why "no code of PyTorch ${TORCH_VERSION} uses it")
    if(nvshmem_sources)
      set(why "this build does not compile what uses it (${nvshmem_sources})")
    endif()
    message(FATAL_ERROR "USE_NVSHMEM=${USE_NVSHMEM}: ${why}; next: USE_NVSHMEM=0")
  endif()
endmacro()

macro(toolkit_python_sources)
  if(USE_NCCL)
    torch_cuda_resolve(nccl_bindings torch/csrc/cuda/python_nccl.cpp)
    list(APPEND PYTHON_SOURCES ${nccl_bindings})
  endif()
  if(USE_CUDNN)
    torch_cuda_resolve(cudnn_bindings torch/csrc/cuda/shared/cudnn.cpp)
    list(APPEND PYTHON_SOURCES ${cudnn_bindings})
  endif()
  torch_cuda_glob(static_launcher "torch/csrc/inductor/static_cuda_launcher.cpp" # from 2.8 on
                  "torch/csrc/inductor/static_launcher/cuda.cpp") # its name from 2.11 on
  list(APPEND PYTHON_SOURCES ${static_launcher})
  set(fast_launcher) # in the same file from 2.13 on
  if(static_launcher)
    file(STRINGS "${static_launcher}" fast_launcher REGEX "^bool FastCudaLauncher_init" LIMIT_COUNT 1)
  endif()
endmacro()

macro(toolkit_bindings)
  if(USE_CUSPARSELT)
    torch_cuda_resolve(cusparselt_bindings torch/csrc/cuda/shared/cusparselt.cpp)
    list(APPEND PYTHON_SOURCES ${cusparselt_bindings}) # libcusparseLt itself is in the process for libtorch_cuda
  endif()
  torch_cuda_switch(CUSPARSELT "CUSPARSELT" "USE_CUSPARSELT" ${PYTHON_SOURCES})
  torch_cuda_switch(CUFILE "CUFILE" "USE_CUFILE" ${PYTHON_SOURCES})
  set(TOOLKIT_BINDINGS_DEFINITIONS $<$<BOOL:${USE_CUFILE}>:TORCH_CUDA_HAS_CUFILE>)
endmacro()

macro(toolkit_source_properties)
  if(TORCH_CUDA_GENCODE MATCHES "compute_90" AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.0)
    # Hopper's warp-specialised kernels exist for sm_90a only, which an older nvcc does not know.
    torch_cuda_glob(hopper "${ATEN}/native/cuda/RowwiseScaledMM.cu" "torch/csrc/distributed/c10d/cuda/AsyncMM.cu")
    set_source_files_properties(${hopper} PROPERTIES COMPILE_OPTIONS "-gencode;arch=compute_90a,code=sm_90a")
  endif()
  torch_cuda_glob(lazy_nvrtc "${ATEN}/cuda/detail/LazyNVRTC.cpp")
  set_property(SOURCE ${lazy_nvrtc} APPEND PROPERTY COMPILE_DEFINITIONS NVRTC_SHORTHASH=XXXXXXXX)
  include(DriverCallers)
  if(DRIVER_CALLERS)
    set_property(SOURCE ${DRIVER_CALLERS} APPEND PROPERTY COMPILE_DEFINITIONS PYTORCH_C10_DRIVER_API_SUPPORTED=1)
  endif()
endmacro()

# See torch_cuda_switch().
macro(toolkit_switches)
  torch_cuda_switch(CUSPARSELT "cu(sparse|SPARSE)Lt|CUSPARSELT" "" ${kernel_sources})
  torch_cuda_switch(CUDSS "C(UDSS|udss)" "USE_CUDSS" ${kernel_sources})
endmacro()

# Sets TOOLKIT_TRACER_MISSING to why there is none, empty where it is found.
macro(toolkit_find_tracer)
  # the toolkit has CUPTI beside itself, NVIDIA's wheels in a folder of its own
  set(extras "${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI")
  find_path(CUPTI_INCLUDE_DIR cupti.h HINTS "${CUPTI_ROOT}" ${CUDAToolkit_INCLUDE_DIRS} "${extras}" PATH_SUFFIXES include)
  find_library(CUPTI_LIBRARY NAMES cupti libcupti.so.${CUDAToolkit_VERSION_MAJOR} PATH_SUFFIXES lib lib64
               HINTS "${CUPTI_ROOT}" ${cuda_lib_dirs} "${CUDAToolkit_LIBRARY_DIR}" "${extras}")
  set(TOOLKIT_TRACER_MISSING)
  if(NOT CUPTI_INCLUDE_DIR OR NOT CUPTI_LIBRARY)
    set(TOOLKIT_TRACER_MISSING "no cupti.h or libcupti in CUDA ${CUDAToolkit_VERSION} (CUPTI_ROOT names their prefix)")
  endif()
endmacro()

# What its sources and the library of them are compiled and linked with.
macro(toolkit_tracer)
  set(TOOLKIT_TRACER_INCLUDE_DIRS ${CUDAToolkit_INCLUDE_DIRS} ${CUPTI_INCLUDE_DIR})
  set(TOOLKIT_TRACER_LIBRARIES "${CUPTI_LIBRARY}" CUDA::cudart)
endmacro()
