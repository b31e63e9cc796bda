# The installed core, and whether it is the patched one: what the toolkit's InstalledTorch.cmake says of it, CORE_KIND, and
# CORE_INCLUDE_DIR (a directory of links in the build tree, so that objects do not depend on where torch is installed).

list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../tools/wrapped_cmake/cmake")
set(TORCH_PREFIX "${TORCH_CUDA_CORE_PREFIX}")
include(InstalledTorch)
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)

file(STRINGS "${PYTORCH_SOURCE_DIR}/version.txt" source_version LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" source_version "${source_version}")
if(NOT TORCH_VERSION STREQUAL source_version)
  message(FATAL_ERROR "the installed torch is ${TORCH_VERSION} (${CORE_PACKAGE_DIR}), the source tree is ${source_version}; "
                      "next: install torch ${source_version}")
endif()

set(CORE_KIND "${TORCH_CUDA_CORE}")
if(CORE_KIND STREQUAL "auto")
  set(CORE_KIND stock)
  # not whether there is a folder _decoupled: pip leaves one behind, and a core in place has it elsewhere
  file(STRINGS "${CORE_PACKAGE_DIR}/__init__.py" calls REGEX "torch\\._decoupled" LIMIT_COUNT 1)
  if(calls)
    set(CORE_KIND built)
  endif()
endif()
if(NOT CORE_KIND MATCHES "^(stock|built)$")
  message(FATAL_ERROR "TORCH_CUDA_CORE='${CORE_KIND}' is unknown; next: use stock, built or auto")
endif()

# What must be compiled as the core was, beside the ABI: the CPU capabilities change the signature of
# DispatchStubImpl::get_call_ptr (one pointer for each), so its exported name tells them.
find_program(TORCH_CUDA_NM nm REQUIRED)
execute_process(COMMAND "${TORCH_CUDA_NM}" -D --defined-only "${CORE_torch_cpu}" OUTPUT_VARIABLE core_symbols)
if(NOT core_symbols MATCHES "DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPv((S[0-9]*_)*)")
  message(FATAL_ERROR "${CORE_torch_cpu} does not export DispatchStubImpl::get_call_ptr; next: check that it is libtorch_cpu "
                      "of PyTorch ${source_version}")
endif()
string(REGEX MATCHALL "S[0-9]*_" more_pointers "${CMAKE_MATCH_1}")
list(LENGTH more_pointers capabilities)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  if(capabilities GREATER 0)
    list(APPEND CORE_DEFINITIONS HAVE_AVX2_CPU_DEFINITION)
  endif()
  if(capabilities GREATER 1)
    list(APPEND CORE_DEFINITIONS HAVE_AVX512_CPU_DEFINITION)
  endif()
endif()
set(CORE_HAS_KINETO OFF)
if(core_symbols MATCHES " _ZN9libkineto3apiEv")
  set(CORE_HAS_KINETO ON)
endif()
unset(core_symbols)

set(CORE_INCLUDE_DIR "${CMAKE_BINARY_DIR}/core_include")
file(MAKE_DIRECTORY "${CORE_INCLUDE_DIR}")
foreach(entry ATen c10 caffe2 torch)
  file(CREATE_LINK "${CORE_HEADERS}/${entry}" "${CORE_INCLUDE_DIR}/${entry}" SYMBOLIC)
endforeach()
