# The libraries that hold the kernels and what launches them.

# --- libc10_cuda, or the vendor's word for it (TOOLKIT_WORD)
add_library(c10_cuda SHARED ${C10_CUDA_SOURCES})
set_target_properties(c10_cuda PROPERTIES OUTPUT_NAME c10_${TOOLKIT_WORD})
target_compile_definitions(c10_cuda PRIVATE ${TOOLKIT_C10_DEFINITIONS})
target_compile_options(c10_cuda PRIVATE -fvisibility=hidden)
target_link_libraries(c10_cuda PRIVATE common ${TOOLKIT_RUNTIME} ${CMAKE_DL_LIBS} ${runtime_support})
target_link_options(c10_cuda PRIVATE ${strict_link})

# --- libcaffe2_nvrtc
add_library(caffe2_nvrtc SHARED ${RTC_STUB_SOURCES})
target_link_libraries(caffe2_nvrtc PRIVATE common ${TOOLKIT_RTC_LIBRARIES})

# --- libtorch_cuda
add_library(torch_cuda_objects OBJECT ${ATEN_RUNTIME_SOURCES} ${ATEN_KERNEL_SOURCES} ${ATTENTION_KERNEL_SOURCES}
            ${codegen_sources} "${aoti_shim}" ${TORCH_SOURCES} ${DISTRIBUTED_SOURCES})
target_compile_definitions(torch_cuda_objects PRIVATE ${TOOLKIT_TORCH_DEFINITIONS})
target_compile_options(torch_cuda_objects PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fvisibility=hidden>)
target_link_libraries(torch_cuda_objects PRIVATE common)
if(CMAKE_JOB_POOLS MATCHES "(^|;)cuda=") # as many at once as the memory is for: wrapped_cmake reckons, CMake alone has no such pool
  set_target_properties(torch_cuda_objects PROPERTIES JOB_POOL_COMPILE cuda)
endif()

set_property(SOURCE ${ATTENTION_KERNEL_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS TORCH_ASSERT_NO_OPERATORS)
# The switches reach the few sources that ask for them, so that turning one does not recompile everything.
torch_cuda_glob(attention_switched "${ATEN}/native/transformers/cuda/*.cu" "${ATEN}/native/transformers/cuda/*.cpp"
                "${ATEN}/native/transformers/cuda/flash_attn/*.cpp")
foreach(switch USE_FLASH_ATTENTION USE_MEM_EFF_ATTENTION)
  if(${switch})
    set_property(SOURCE ${attention_switched} ${ATTENTION_KERNEL_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS ${switch})
  endif()
endforeach()
toolkit_source_properties()

add_library(torch_cuda SHARED $<TARGET_OBJECTS:torch_cuda_objects>)
set_target_properties(torch_cuda PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME torch_${TOOLKIT_WORD})
target_link_libraries(torch_cuda PRIVATE core::torch_cpu core::c10 c10_cuda ${TOOLKIT_LIBRARIES} ${CMAKE_DL_LIBS})
# Each reaches the sources that name it, for the same reason as the switches above.
set(kernel_sources ${ATEN_RUNTIME_SOURCES} ${ATEN_KERNEL_SOURCES})
torch_cuda_switch(MAGMA "[Mm][Aa][Gg][Mm][Aa]" "MAGMA_V2" ${kernel_sources})
toolkit_switches()
torch_cuda_switch(UCC "UCC" "USE_UCC;USE_C10D_UCC" ${DISTRIBUTED_SOURCES})
foreach(library IN LISTS TOOLKIT_BESIDE_LINKED)
  if(USE_${library})
    target_link_libraries(torch_cuda PRIVATE dep::${library})
  endif()
endforeach()
if(TARGET dep::TENSORPIPE)
  target_link_libraries(torch_cuda PRIVATE dep::TENSORPIPE)
endif()
target_link_libraries(torch_cuda PRIVATE ${runtime_support})
target_link_options(torch_cuda PRIVATE ${strict_link})
