# What all of our compilations and links share.

set(INCLUDE_DIRS
  "${CONFIG_DIR}" "${SHADOW_DIR}/aten/src" "${SHADOW_DIR}"
  "${CORE_INCLUDE_DIR}" "${CORE_INCLUDE_DIR}/torch/csrc/api/include"
  "${CODEGEN_DIR}" "${CMAKE_BINARY_DIR}/generated"
  # Headers that torch does not install come from the tree, last.
  "${PYTORCH_SOURCE_DIR}/aten/src" "${PYTORCH_SOURCE_DIR}")
list(FILTER INCLUDE_DIRS EXCLUDE REGEX "^$") # nothing is generated beside imported kernels
set(THIRD_PARTY_INCLUDE_DIRS "${CUTLASS_INCLUDE_DIR}" "${CUTLASS_UTIL_INCLUDE_DIR}" "${FMT_INCLUDE_DIR}" "${NLOHMANN_INCLUDE_DIR}"
  "${CUDNN_FRONTEND_INCLUDE_DIR}" "${NVTX_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
list(FILTER THIRD_PARTY_INCLUDE_DIRS EXCLUDE REGEX "NOTFOUND$|^$")
list(REMOVE_DUPLICATES THIRD_PARTY_INCLUDE_DIRS)

set(HOST_FLAGS -O2 -fvisibility-inlines-hidden -fno-math-errno -fno-trapping-math -Wno-deprecated-declarations)
# The warning and language switches of upstream's cmake/public/cuda.cmake and cmake/Dependencies.cmake.
set(NVCC_FLAGS
  ${TORCH_CUDA_GENCODE} -Xcudafe
  --diag_suppress=cc_clobber_ignored,--diag_suppress=field_without_dll_interface,--diag_suppress=base_class_has_different_dll_interface,--diag_suppress=dll_interface_conflict_none_assumed,--diag_suppress=dll_interface_conflict_dllexport_assumed,--diag_suppress=bad_friend_decl
  --expt-relaxed-constexpr --expt-extended-lambda -Wno-deprecated-gpu-targets -Wno-deprecated-declarations
  -Xfatbin -compress-all
  -DLIBCUDACXX_ENABLE_SIMPLIFIED_COMPLEX_OPERATIONS -DCUB_WRAPPED_NAMESPACE=at_cuda_detail -DCUDA_HAS_FP16=1
  -D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__)
separate_arguments(more_nvcc_flags UNIX_COMMAND "${TORCH_NVCC_FLAGS}")

# Everything that all of our compilations share.
add_library(common INTERFACE)
if(TARGET torch_cuda_codegen)
  add_dependencies(common torch_cuda_codegen)
endif()
target_include_directories(common INTERFACE ${INCLUDE_DIRS})
target_include_directories(common SYSTEM INTERFACE ${THIRD_PARTY_INCLUDE_DIRS})
target_compile_definitions(common INTERFACE
  ${CORE_DEFINITIONS} AT_PER_OPERATOR_HEADERS USE_CUDA FMT_HEADER_ONLY=1 FLASHATTENTION_DISABLE_ALIBI _FILE_OFFSET_BITS=64
  CUTLASS_ENABLE_TENSOR_CORE_MMA=1 CUTLASS_ENABLE_SM90_EXTENDED_MMA_SHAPES=1 CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED
  $<$<BOOL:${NVTX_INCLUDE_DIR}>:TORCH_CUDA_USE_NVTX3>
  $<$<BOOL:${USE_CUDNN}>:USE_CUDNN> $<$<BOOL:${USE_NCCL}>:USE_NCCL>)
if(USE_DISTRIBUTED)
  target_compile_definitions(common INTERFACE USE_DISTRIBUTED USE_RPC $<$<BOOL:${USE_TENSORPIPE}>:USE_TENSORPIPE>
                             $<$<BOOL:${USE_NCCL}>:USE_C10D_NCCL>)
endif()
target_compile_options(common INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${HOST_FLAGS}> "$<$<COMPILE_LANGUAGE:CUDA>:${NVCC_FLAGS};${more_nvcc_flags}>")
find_package(Threads REQUIRED) # a library of its own before glibc 2.34
target_link_libraries(common INTERFACE core::torch_cpu core::c10 Threads::Threads)
if(USE_CUDNN)
  target_include_directories(common SYSTEM INTERFACE "${CUDNN_INCLUDE_DIR}")
endif()
if(USE_NCCL)
  target_include_directories(common SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}")
endif()
if(TENSORPIPE_INCLUDE_DIR)
  target_include_directories(common SYSTEM INTERFACE "${TENSORPIPE_INCLUDE_DIR}")
endif()

# Gives the sources that name a library its headers and definitions, where the build has it. A definition for all of them would
# recompile everything when one library is turned on.
function(torch_cuda_switch name pattern definitions)
  if(NOT USE_${name})
    return()
  endif()
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" hit REGEX "${pattern}" LIMIT_COUNT 1)
    if(hit)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS ${definitions})
      set_property(SOURCE "${source}" APPEND PROPERTY INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
    endif()
  endforeach()
endfunction()

# Run-time search: our own directory, the nvidia-*-cu12 packages of pip, and torch's lib, all siblings in site-packages.
set(rpath "$ORIGIN")
foreach(package cublas cuda_cupti cuda_nvrtc cuda_runtime cudnn cufft cufile curand cusolver cusparse nccl nvjitlink nvtx)
  list(APPEND rpath "$ORIGIN/../../nvidia/${package}/lib")
endforeach()
# where nvidia-cusparselt puts itself, and nvidia-cudss and all of CUDA 13's toolkit
if(USE_CUSPARSELT)
  list(APPEND rpath "$ORIGIN/../../cusparselt/lib")
endif()
if(USE_CUDSS OR CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND rpath "$ORIGIN/../../nvidia/cu${CUDAToolkit_VERSION_MAJOR}/lib")
endif()
list(APPEND rpath "$ORIGIN/../../torch/lib")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "${rpath}")
set(strict_link "-Wl,--no-undefined" "-Wl,-z,now" "-Wl,--as-needed")
# GCC 14 marks its reference to __cxa_call_terminate hidden under -fvisibility=hidden, so libstdc++.so cannot answer it:
# the static half does, after the shared one has answered everything else.
set(runtime_support $<$<CXX_COMPILER_ID:GNU>:stdc++> $<$<CXX_COMPILER_ID:GNU>:supc++>)
