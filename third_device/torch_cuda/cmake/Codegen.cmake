# torchgen for the CUDA dispatch keys, from the source tree, into the build tree.
#
# torchgen takes its templates from below native_functions.yaml's folder; one of them (a .cu) is relocated, so the two
# places are put together again as links.

set(DISPATCH_KEYS CUDA NestedTensorCUDA QuantizedCUDA SparseCUDA SparseCsrCUDA)
set(CODEGEN_DIR "${CMAKE_BINARY_DIR}/generated/aten")
set(CODEGEN_SOURCE "${CMAKE_BINARY_DIR}/codegen_source")
set(AOTI_SHIM_DIR "${CMAKE_BINARY_DIR}/generated/torch/csrc/inductor/aoti_torch/generated")

file(MAKE_DIRECTORY "${CODEGEN_SOURCE}/native" "${CODEGEN_SOURCE}/templates" "${CODEGEN_DIR}/ATen" "${AOTI_SHIM_DIR}")
torch_cuda_glob(codegen_yaml "aten/src/ATen/native/*.yaml")
torch_cuda_glob(codegen_templates "aten/src/ATen/templates/*.*")
foreach(part native templates)
  set(files ${codegen_yaml})
  if(part STREQUAL "templates")
    set(files ${codegen_templates})
  endif()
  foreach(path IN LISTS files)
    get_filename_component(name "${path}" NAME)
    file(CREATE_LINK "${path}" "${CODEGEN_SOURCE}/${part}/${name}" SYMBOLIC)
  endforeach()
endforeach()

# torchgen checks its C shims against the headers in the tree (their ABI is frozen) and wants them beside its output.
torch_cuda_glob(shim_headers "torch/csrc/inductor/aoti_torch/generated/*.h")
foreach(path IN LISTS shim_headers)
  get_filename_component(name "${path}" NAME)
  file(CREATE_LINK "${path}" "${AOTI_SHIM_DIR}/${name}" SYMBOLIC)
endforeach()

set(TORCHGEN "${CMAKE_COMMAND}" -E env "PYTHONPATH=${PYTORCH_SOURCE_DIR}" PYTHONDONTWRITEBYTECODE=1
    "${Python_EXECUTABLE}" -m torchgen.gen --source-path "${CODEGEN_SOURCE}" --install-dir "${CODEGEN_DIR}/ATen"
    --aoti-install-dir "${AOTI_SHIM_DIR}" ${TOOLKIT_TORCHGEN_FLAGS} --per-operator-headers --backend-whitelist ${DISPATCH_KEYS} --generate headers sources)

# As upstream: a dry run tells what will be written. It takes seconds, so it is repeated only when an input changed.
file(GLOB_RECURSE torchgen_python CONFIGURE_DEPENDS "${PYTORCH_SOURCE_DIR}/torchgen/*.py")
set(codegen_note "${CODEGEN_DIR}/command.txt") # of another tree the inputs may be older than the outputs of the first
set(codegen_before "")
if(EXISTS "${codegen_note}")
  file(READ "${codegen_note}" codegen_before)
endif()
set(outputs_known OFF)
if(codegen_before STREQUAL "${TORCHGEN}")
  set(outputs_known ON)
endif()
foreach(input IN LISTS torchgen_python codegen_templates codegen_yaml)
  if("${input}" IS_NEWER_THAN "${CODEGEN_DIR}/cuda_outputs.cmake") # also true when there is none yet
    set(outputs_known OFF)
    break()
  endif()
endforeach()
if(NOT outputs_known)
  execute_process(COMMAND ${TORCHGEN} --dry-run --output-dependencies "${CODEGEN_DIR}/outputs.cmake"
                  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE status ERROR_VARIABLE trouble)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "torchgen failed:\n${trouble}\nnext: check that ${Python_EXECUTABLE} has the modules yaml and typing_extensions")
  endif()
  file(TOUCH "${CODEGEN_DIR}/cuda_outputs.cmake") # torchgen leaves a file alone that would not change
  file(WRITE "${codegen_note}" "${TORCHGEN}")
endif()
include("${CODEGEN_DIR}/cuda_outputs.cmake")
set(codegen_sources ${cuda_outputs})
list(FILTER codegen_sources INCLUDE REGEX "\\.(cpp|cu)$")
set(aoti_shim "${AOTI_SHIM_DIR}/c_shim_cuda.cpp")

set(codegen_stamp "${CODEGEN_DIR}/stamp")
add_custom_command(
  OUTPUT "${codegen_stamp}"
  BYPRODUCTS ${cuda_outputs} "${aoti_shim}"
  COMMAND ${TORCHGEN}
  COMMAND "${CMAKE_COMMAND}" -E touch "${codegen_stamp}"
  DEPENDS ${torchgen_python} ${codegen_templates} ${codegen_yaml}
  WORKING_DIRECTORY "${CMAKE_BINARY_DIR}"
  COMMENT "torchgen: ${DISPATCH_KEYS}")
add_custom_target(torch_cuda_codegen DEPENDS "${codegen_stamp}")
set_source_files_properties(${codegen_sources} "${aoti_shim}" PROPERTIES GENERATED ON)

# The configuration headers of this side.
macro(torch_cuda_01 result value)
  if(${value})
    set(${result} 1)
  else()
    set(${result} 0)
  endif()
endmacro()
set(CONFIG_DIR "${CMAKE_BINARY_DIR}/generated/config")
torch_cuda_01(AT_MAGMA_ENABLED USE_MAGMA)
toolkit_configure_headers()
