# One screen that tells what will be built; also build_info.json, which the wheel carries and the loader reads.

foreach(list C10_CUDA_SOURCES RTC_STUB_SOURCES ATEN_RUNTIME_SOURCES ATEN_KERNEL_SOURCES ATTENTION_KERNEL_SOURCES codegen_sources
        TORCH_SOURCES DISTRIBUTED_SOURCES PYTHON_SOURCES KINETO_SOURCES)
  list(LENGTH ${list} n_${list})
endforeach()
math(EXPR objects "${n_C10_CUDA_SOURCES} + ${n_RTC_STUB_SOURCES} + ${n_ATEN_RUNTIME_SOURCES} + ${n_ATEN_KERNEL_SOURCES} \
+ ${n_ATTENTION_KERNEL_SOURCES} + ${n_codegen_sources} + 1 + ${n_TORCH_SOURCES} + ${n_DISTRIBUTED_SOURCES} + ${n_PYTHON_SOURCES} + 1")

if(TORCH_CUDA_KERNELS)
  math(EXPR objects "${n_PYTHON_SOURCES} + 1")
endif()

if(USE_KINETO)
  math(EXPR n_KINETO_SOURCES "${n_KINETO_SOURCES} + 1")
  math(EXPR objects "${objects} + ${n_KINETO_SOURCES}")
endif()

message(STATUS "torch_cuda ${TORCH_VERSION}, kernels ${KERNELS_KIND}, slice ${TORCH_CUDA_SLICE}: ${objects} objects")
message(STATUS "  source        ${PYTORCH_SOURCE_DIR} (${RELOCATED_FILES} relocated files)")
message(STATUS "  core          ${CORE_KIND}, ${CORE_PACKAGE_DIR}")
message(STATUS "  core defines  ${CORE_DEFINITIONS}")
foreach(line IN LISTS TOOLKIT_SUMMARY)
  message(STATUS "  ${line}")
endforeach()
message(STATUS "  architectures ${TORCH_CUDA_ARCH_FLAGS}")
foreach(library IN LISTS BESIDE)
  set(state "off: ${${library}_WHY}")
  if(USE_${library})
    set(state "${${library}_VERSION} ${${library}_LIBRARY}")
  endif()
  string(SUBSTRING "${library}          " 0 13 name)
  message(STATUS "  ${name} ${state}")
endforeach()
message(STATUS "  Kineto        ${USE_KINETO} ${KINETO_SOURCE_DIR}")
message(STATUS "  attention     flash ${USE_FLASH_ATTENTION}, memory efficient ${USE_MEM_EFF_ATTENTION}")
message(STATUS "  objects       c10 ${n_C10_CUDA_SOURCES}, nvrtc ${n_RTC_STUB_SOURCES}, runtime ${n_ATEN_RUNTIME_SOURCES}, kernels ${n_ATEN_KERNEL_SOURCES}, "
                "attention ${n_ATTENTION_KERNEL_SOURCES}, generated ${n_codegen_sources} + 1, torch ${n_TORCH_SOURCES}, "
                "distributed ${n_DISTRIBUTED_SOURCES}, Kineto ${n_KINETO_SOURCES}, bindings ${n_PYTHON_SOURCES} + 1")
