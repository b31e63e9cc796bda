# The libraries that hold the kernels and what launches them.

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

set_property(SOURCE ${ATTENTION_KERNEL_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS TORCH_ASSERT_NO_OPERATORS)
# The switches reach the few sources that ask for them, so that turning one does not recompile everything.
torch_cuda_glob(attention_switched "${ATEN}/native/transformers/cuda/*.cu" "${ATEN}/native/transformers/cuda/*.cpp"
                "${ATEN}/native/transformers/cuda/flash_attn/*.cpp")
foreach(switch USE_FLASH_ATTENTION USE_MEM_EFF_ATTENTION)
  if(${switch})
    set_property(SOURCE ${attention_switched} ${ATTENTION_KERNEL_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS ${switch})
  endif()
endforeach()
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

add_library(torch_cuda SHARED $<TARGET_OBJECTS:torch_cuda_objects>)
set_target_properties(torch_cuda PROPERTIES LINKER_LANGUAGE CXX)
set(cuda_libraries CUDA::cublas CUDA::cublasLt CUDA::cufft CUDA::curand CUDA::cusolver CUDA::cusparse CUDA::cudart ${NVTX_LIBRARY})
target_link_libraries(torch_cuda PRIVATE core::torch_cpu core::c10 c10_cuda ${cuda_libraries} ${CMAKE_DL_LIBS})
if(USE_CUDNN)
  target_link_libraries(torch_cuda PRIVATE dep::CUDNN)
endif()
if(USE_NCCL)
  target_link_libraries(torch_cuda PRIVATE dep::NCCL)
endif()
# Each reaches the sources that name it, for the same reason as the switches above.
set(kernel_sources ${ATEN_RUNTIME_SOURCES} ${ATEN_KERNEL_SOURCES})
torch_cuda_switch(MAGMA "[Mm][Aa][Gg][Mm][Aa]" "MAGMA_V2" ${kernel_sources})
torch_cuda_switch(CUSPARSELT "cu(sparse|SPARSE)Lt|CUSPARSELT" "" ${kernel_sources})
torch_cuda_switch(CUDSS "C(UDSS|udss)" "USE_CUDSS" ${kernel_sources})
torch_cuda_switch(UCC "UCC" "USE_UCC;USE_C10D_UCC" ${DISTRIBUTED_SOURCES})
foreach(library MAGMA CUSPARSELT CUDSS UCC)
  if(USE_${library})
    target_link_libraries(torch_cuda PRIVATE dep::${library})
  endif()
endforeach()
if(TARGET dep::TENSORPIPE)
  target_link_libraries(torch_cuda PRIVATE dep::TENSORPIPE)
endif()
target_link_libraries(torch_cuda PRIVATE ${runtime_support})
target_link_options(torch_cuda PRIVATE ${strict_link})
