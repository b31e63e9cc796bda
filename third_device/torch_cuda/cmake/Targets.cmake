# The libraries and the extension module.

set(INCLUDE_DIRS
  "${CONFIG_DIR}" "${SHADOW_DIR}/aten/src" "${SHADOW_DIR}"
  "${CORE_INCLUDE_DIR}" "${CORE_INCLUDE_DIR}/torch/csrc/api/include"
  "${CODEGEN_DIR}" "${CMAKE_BINARY_DIR}/generated"
  # Headers that torch does not install come from the tree, last.
  "${PYTORCH_SOURCE_DIR}/aten/src" "${PYTORCH_SOURCE_DIR}")
set(THIRD_PARTY_INCLUDE_DIRS "${CUTLASS_INCLUDE_DIR}" "${CUTLASS_UTIL_INCLUDE_DIR}" "${FMT_INCLUDE_DIR}" "${NLOHMANN_INCLUDE_DIR}"
  "${CUDNN_FRONTEND_INCLUDE_DIR}" ${CUDAToolkit_INCLUDE_DIRS})
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
add_dependencies(common torch_cuda_codegen)
target_include_directories(common INTERFACE ${INCLUDE_DIRS})
target_include_directories(common SYSTEM INTERFACE ${THIRD_PARTY_INCLUDE_DIRS})
target_compile_definitions(common INTERFACE
  ${CORE_DEFINITIONS} AT_PER_OPERATOR_HEADERS USE_CUDA FMT_HEADER_ONLY=1 FLASHATTENTION_DISABLE_ALIBI _FILE_OFFSET_BITS=64
  CUTLASS_ENABLE_TENSOR_CORE_MMA=1 CUTLASS_ENABLE_SM90_EXTENDED_MMA_SHAPES=1 CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED
  $<$<BOOL:${USE_CUDNN}>:USE_CUDNN> $<$<BOOL:${USE_NCCL}>:USE_NCCL>)
if(USE_DISTRIBUTED)
  target_compile_definitions(common INTERFACE USE_DISTRIBUTED USE_RPC $<$<BOOL:${USE_TENSORPIPE}>:USE_TENSORPIPE>
                             $<$<BOOL:${USE_NCCL}>:USE_C10D_NCCL>)
endif()
target_compile_options(common INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${HOST_FLAGS}> "$<$<COMPILE_LANGUAGE:CUDA>:${NVCC_FLAGS};${more_nvcc_flags}>")
target_link_libraries(common INTERFACE core::torch_cpu core::c10)
if(USE_CUDNN)
  target_include_directories(common SYSTEM INTERFACE "${CUDNN_INCLUDE_DIR}")
endif()
if(USE_NCCL)
  target_include_directories(common SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}")
endif()
if(TENSORPIPE_INCLUDE_DIR)
  target_include_directories(common SYSTEM INTERFACE "${TENSORPIPE_INCLUDE_DIR}")
endif()

# Run-time search: our own directory, the nvidia-*-cu12 packages of pip, and torch's lib, all siblings in site-packages.
set(rpath "$ORIGIN")
foreach(package cublas cuda_cupti cuda_nvrtc cuda_runtime cudnn cufft curand cusolver cusparse nccl nvjitlink nvtx)
  list(APPEND rpath "$ORIGIN/../../nvidia/${package}/lib")
endforeach()
list(APPEND rpath "$ORIGIN/../../torch/lib")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "${rpath}")
set(strict_link "-Wl,--no-undefined" "-Wl,-z,now" "-Wl,--as-needed")
# GCC 14 marks its reference to __cxa_call_terminate hidden under -fvisibility=hidden, so libstdc++.so cannot answer it:
# the static half does, after the shared one has answered everything else.
set(runtime_support $<$<CXX_COMPILER_ID:GNU>:stdc++> $<$<CXX_COMPILER_ID:GNU>:supc++>)

# --- libc10_cuda
add_library(c10_cuda SHARED ${C10_CUDA_SOURCES})
target_compile_definitions(c10_cuda PRIVATE C10_CUDA_BUILD_MAIN_LIB PYTORCH_C10_DRIVER_API_SUPPORTED)
target_compile_options(c10_cuda PRIVATE -fvisibility=hidden)
target_link_libraries(c10_cuda PRIVATE common CUDA::cudart ${CMAKE_DL_LIBS} ${runtime_support})
target_link_options(c10_cuda PRIVATE ${strict_link})

# --- libcaffe2_nvrtc
add_library(caffe2_nvrtc SHARED ${NVRTC_STUB_SOURCES})
target_link_libraries(caffe2_nvrtc PRIVATE common CUDA::nvrtc CUDA::cuda_driver)

# --- libtorch_cuda
add_library(torch_cuda_objects OBJECT ${ATEN_RUNTIME_SOURCES} ${ATEN_KERNEL_SOURCES} ${ATTENTION_KERNEL_SOURCES}
            ${codegen_sources} "${aoti_shim}" ${TORCH_SOURCES} ${DISTRIBUTED_SOURCES})
target_compile_definitions(torch_cuda_objects PRIVATE TORCH_CUDA_BUILD_MAIN_LIB)
target_compile_options(torch_cuda_objects PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fvisibility=hidden>)
target_link_libraries(torch_cuda_objects PRIVATE common)

set_source_files_properties(${ATTENTION_KERNEL_SOURCES} PROPERTIES COMPILE_DEFINITIONS TORCH_ASSERT_NO_OPERATORS)
# The switches reach the few sources that ask for them, so that turning one does not recompile everything.
torch_cuda_glob(attention_switched "${ATEN}/native/transformers/cuda/*.cu" "${ATEN}/native/transformers/cuda/*.cpp"
                "${ATEN}/native/transformers/cuda/flash_attn/*.cpp")
foreach(switch USE_FLASH_ATTENTION USE_MEM_EFF_ATTENTION)
  if(${switch})
    set_property(SOURCE ${attention_switched} ${ATTENTION_KERNEL_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS ${switch})
  endif()
endforeach()
if(TORCH_CUDA_GENCODE MATCHES "compute_90")
  # Hopper's warp-specialised kernels exist for sm_90a only.
  torch_cuda_glob(hopper "${ATEN}/native/cuda/RowwiseScaledMM.cu" "torch/csrc/distributed/c10d/cuda/AsyncMM.cu")
  set_source_files_properties(${hopper} PROPERTIES COMPILE_OPTIONS "-gencode;arch=compute_90a,code=sm_90a")
endif()
torch_cuda_glob(lazy_nvrtc "${ATEN}/cuda/detail/LazyNVRTC.cpp")
set_source_files_properties(${lazy_nvrtc} PROPERTIES COMPILE_DEFINITIONS NVRTC_SHORTHASH=XXXXXXXX)
foreach(source IN LISTS DISTRIBUTED_SOURCES)
  if(source MATCHES "(intra_node_comm.cpp|CudaDMAConnectivity.cpp|CUDASymmetricMemory.cu|CUDASymmetricMemoryOps.cu|ProcessGroupNCCL.cpp)$")
    set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS PYTORCH_C10_DRIVER_API_SUPPORTED=1)
  endif()
endforeach()

add_library(torch_cuda SHARED $<TARGET_OBJECTS:torch_cuda_objects>)
set_target_properties(torch_cuda PROPERTIES LINKER_LANGUAGE CXX)
set(cuda_libraries CUDA::cublas CUDA::cublasLt CUDA::cufft CUDA::curand CUDA::cusolver CUDA::cusparse CUDA::cudart CUDA::nvToolsExt)
target_link_libraries(torch_cuda PRIVATE core::torch_cpu core::c10 c10_cuda ${cuda_libraries} ${CMAKE_DL_LIBS})
if(USE_CUDNN)
  target_link_libraries(torch_cuda PRIVATE dep::CUDNN)
endif()
if(USE_NCCL)
  target_link_libraries(torch_cuda PRIVATE dep::NCCL)
endif()
if(TARGET dep::TENSORPIPE)
  target_link_libraries(torch_cuda PRIVATE dep::TENSORPIPE)
endif()
target_link_libraries(torch_cuda PRIVATE ${runtime_support})
target_link_options(torch_cuda PRIVATE ${strict_link})

# --- libtorch_python_cuda and _CUDAC
add_library(torch_python_cuda_objects OBJECT ${PYTHON_SOURCES})
target_compile_definitions(torch_python_cuda_objects PRIVATE THP_BUILD_MAIN_LIB $<$<BOOL:${USE_DISTRIBUTED}>:USE_C10D>)
target_compile_options(torch_python_cuda_objects PRIVATE -fvisibility=default -fno-strict-aliasing)
target_include_directories(torch_python_cuda_objects SYSTEM PRIVATE "${PYBIND11_INCLUDE_DIR}" ${Python_INCLUDE_DIRS})
target_link_libraries(torch_python_cuda_objects PRIVATE common)
add_library(torch_python_cuda SHARED $<TARGET_OBJECTS:torch_python_cuda_objects>)
set_target_properties(torch_python_cuda PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(torch_python_cuda PRIVATE core::torch_python core::torch_cpu core::c10 torch_cuda c10_cuda CUDA::cudart CUDA::nvToolsExt)
if(USE_CUDNN)
  target_link_libraries(torch_python_cuda PRIVATE dep::CUDNN)
endif()
target_link_libraries(torch_python_cuda PRIVATE ${runtime_support})
foreach(source IN LISTS PYTHON_SOURCES)
  if(source MATCHES "/pybinding/Module.cpp$|torch/csrc/cuda/Module.cpp$")
    # without quotes of its own: Module.cpp makes the string, and torch.cuda.get_arch_list() splits it at its spaces
    set_source_files_properties("${source}" PROPERTIES COMPILE_DEFINITIONS "CUDA_ARCH_FLAGS=${TORCH_CUDA_ARCH_FLAGS}")
  endif()
endforeach()

Python_add_library(_CUDAC MODULE WITH_SOABI "${OWN_PYTHON_DIR}/_cudac_module.cpp")
target_include_directories(_CUDAC SYSTEM PRIVATE "${PYBIND11_INCLUDE_DIR}")
target_compile_definitions(_CUDAC PRIVATE TORCH_CUDA_VERSION="${TORCH_CUDA_VERSION}")
target_link_libraries(_CUDAC PRIVATE common core::torch_python torch_python_cuda torch_cuda)
set(extension_rpath ${rpath})
list(TRANSFORM extension_rpath REPLACE "^.ORIGIN/\\.\\./\\.\\./" "$ORIGIN/../")
set_target_properties(_CUDAC PROPERTIES INSTALL_RPATH "$ORIGIN/lib;${extension_rpath}")

if(TORCH_CUDA_SLICE STREQUAL "runtime")
  include(Slice)
endif()
