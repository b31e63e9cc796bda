# What goes into which library, by upstream path. Mirrors the GPU half of aten/src/ATen/CMakeLists.txt and
# caffe2/CMakeLists.txt; lists that upstream keeps in build_variables.bzl are read from there.

set(ATEN aten/src/ATen)

torch_cuda_glob(C10_CUDA_SOURCES "c10/cuda/*.cpp" "c10/cuda/impl/*.cpp")
torch_cuda_glob(RTC_STUB_SOURCES "${ATEN}/cuda/nvrtc_stub/*.cpp")

# The runtime: contexts, streams, generators, hooks, BLAS and sparse handles.
torch_cuda_glob(ATEN_RUNTIME_SOURCES "${ATEN}/cuda/*.cpp" "${ATEN}/cuda/detail/*.cpp" "${ATEN}/cuda/tunable/*.cpp"
                "${ATEN}/cuda/*.cu" "${ATEN}/cuda/detail/*.cu")
toolkit_runtime_sources()

# Kernels and the host code that launches them. native/miopen holds stubs that register operators for the CUDA key.
torch_cuda_glob(ATEN_KERNEL_SOURCES
  "${ATEN}/native/cuda/*.cu" "${ATEN}/native/cuda/*.cpp" "${ATEN}/native/cuda/linalg/*.cpp"
  "${ATEN}/native/cudnn/*.cpp" "${ATEN}/native/miopen/*.cpp"
  "${ATEN}/native/nested/cuda/*.cu" "${ATEN}/native/nested/cuda/*.cpp"
  "${ATEN}/native/sparse/cuda/*.cu" "${ATEN}/native/sparse/cuda/*.cpp"
  "${ATEN}/native/quantized/cuda/*.cu" "${ATEN}/native/quantized/cuda/*.cpp" "${ATEN}/native/quantized/cudnn/*.cpp"
  "${ATEN}/native/transformers/cuda/*.cu" "${ATEN}/native/transformers/cuda/*.cpp")
set(ATTENTION_KERNEL_SOURCES)
if(USE_FLASH_ATTENTION)
  torch_cuda_glob(flash_kernels "${ATEN}/native/transformers/cuda/flash_attn/kernels/*.cu"
                  "third_party/flash-attention/csrc/flash_attn/src/*.cu") # from 2.7 on
  list(APPEND ATTENTION_KERNEL_SOURCES ${flash_kernels})
endif()
if(USE_MEM_EFF_ATTENTION)
  torch_cuda_glob(mem_eff_kernels "${ATEN}/native/transformers/cuda/mem_eff_attention/kernels/*.cu")
  list(APPEND ATTENTION_KERNEL_SOURCES ${mem_eff_kernels})
endif()
# flash_api.cpp is in this list whatever the switch: it registers nothing, and says so, when flash attention is off.
toolkit_listed_kernels(listed)
list(APPEND ATEN_KERNEL_SOURCES ${listed})

# JIT, autograd, profiler, AOT Inductor, distributed.
torch_cuda_filelist(TORCH_SOURCES libtorch_cuda_core_sources)
torch_cuda_glob(c_shim "torch/csrc/cuda/shim_common.cpp") # the stable ABI's functions, from 2.10 on
list(APPEND TORCH_SOURCES ${c_shim})
toolkit_torch_sources()
set(DISTRIBUTED_SOURCES)
if(USE_DISTRIBUTED)
  torch_cuda_filelist(DISTRIBUTED_SOURCES libtorch_cuda_distributed_base_sources libtorch_cuda_distributed_extra_sources)
  # What later releases added, whichever of their lists has it: symmetric memory from 2.8 on.
  torch_cuda_glob(later_distributed "torch/csrc/distributed/c10d/cuda/*.cpp" "torch/csrc/distributed/c10d/cuda/*.cu"
                  "torch/csrc/distributed/c10d/nccl2/*.cpp" "torch/csrc/distributed/c10d/nccl2/*.cu"
                  "torch/csrc/distributed/c10d/symm_mem/CUDA*.cpp" "torch/csrc/distributed/c10d/symm_mem/CUDA*.cu"
                  "torch/csrc/distributed/c10d/symm_mem/Cuda*.cpp" "torch/csrc/distributed/c10d/symm_mem/cuda_*.cpp"
                  "torch/csrc/distributed/c10d/symm_mem/NCCL*.cu" "torch/csrc/distributed/c10d/symm_mem/nccl_dev*.cpp"
                  "torch/csrc/distributed/c10d/symm_mem/nccl_extension.cu" "torch/csrc/distributed/c10d/symm_mem/ops/*.cu")
  list(APPEND DISTRIBUTED_SOURCES ${later_distributed})
endif()

# Bindings.
torch_cuda_filelist(PYTHON_SOURCES libtorch_python_cuda_core_sources)
toolkit_python_sources()
# Ours. bindings.cpp and config.cpp answer for torch._C what a core without CUDA cannot, uuid.cpp has what a core may not export; the
# others implement the hooks and registries that the patched core declares, so a stock core has nothing to compile them against.
set(OWN_PYTHON_DIR "${CMAKE_CURRENT_SOURCE_DIR}/torch_cuda/csrc/pybinding")
if(TOOLKIT_COPIES)
  set(OWN_PYTHON_DIR "${SHADOW_DIR}/torch/csrc/cuda") # translated with what lies there
endif()
set(own_sources "${OWN_PYTHON_DIR}/registrations/bindings.cpp" "${OWN_PYTHON_DIR}/registrations/config.cpp"
                "${OWN_PYTHON_DIR}/registrations/uuid.cpp")
if(CORE_KIND STREQUAL "built")
  file(GLOB own_sources CONFIGURE_DEPENDS "${OWN_PYTHON_DIR}/registrations/*.cpp")
endif()
list(APPEND PYTHON_SOURCES ${own_sources})

list(REMOVE_DUPLICATES DISTRIBUTED_SOURCES)
foreach(list C10_CUDA_SOURCES ATEN_RUNTIME_SOURCES ATEN_KERNEL_SOURCES TORCH_SOURCES PYTHON_SOURCES)
  list(REMOVE_DUPLICATES ${list})
  if(NOT ${list})
    message(FATAL_ERROR "${list} is empty: ${PYTORCH_SOURCE_DIR} is not laid out as this project expects; next: check ${TORCH_PATCHES_DIR}")
  endif()
endforeach()
list(REMOVE_ITEM ATEN_KERNEL_SOURCES ${ATEN_RUNTIME_SOURCES})

if(TORCH_CUDA_SLICE STREQUAL "runtime")
  # Enough to allocate, fill and copy; everything else answers "not part of this slice" (torch_cuda_build/slice_stubs.py).
  set(slice_kernels)
  foreach(name IN ITEMS TensorFactories.cu EmptyTensor.cpp Copy.cu FillKernel.cu Equal.cpp Resize.cpp TensorShapeCUDA.cpp CUDAScalar.cu jit_utils.cpp)
    torch_cuda_glob(path "${ATEN}/native/cuda/${name}")
    list(APPEND slice_kernels ${path})
  endforeach()
  set(ATEN_KERNEL_SOURCES ${slice_kernels})
  list(FILTER DISTRIBUTED_SOURCES EXCLUDE REGEX "\\.cu$")
endif()
