# The shadow tree: relocated files at their upstream paths (torch_cuda_build/relocation.py, or what the toolkit has in its place), and
# what to do with it.

set(SHADOW_DIR "${CMAKE_BINARY_DIR}/shadow")
set(TORCH_PATCHES_DIR "${CMAKE_CURRENT_SOURCE_DIR}/torch_patches")

# Runs a module of torch_cuda_build; stops the configuration with its message when it fails.
function(torch_cuda_python result)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}" PYTHONDONTWRITEBYTECODE=1 "${Python_EXECUTABLE}" -m ${ARGN}
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE trouble)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${trouble}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

torch_cuda_python(RELOCATED_FILES torch_cuda_build.${TOOLKIT_SHADOW}
                  --source "${PYTORCH_SOURCE_DIR}" --patches "${TORCH_PATCHES_DIR}" --shadow "${SHADOW_DIR}")
file(GLOB_RECURSE relocation_inputs CONFIGURE_DEPENDS "${TORCH_PATCHES_DIR}/*.patch")
if(TOOLKIT_COPIES) # a link shows what a file became, a copy does not
  file(GLOB_RECURSE copied CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/torch_cuda/csrc/*")
  list(APPEND relocation_inputs ${copied})
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${relocation_inputs} "${PYTORCH_SOURCE_DIR}/build_variables.bzl")

# Present absolute paths of files named by upstream path.
function(torch_cuda_resolve result)
  set(found)
  foreach(name IN LISTS ARGN)
    toolkit_path(name "${name}")
    foreach(root "${SHADOW_DIR}" "${PYTORCH_SOURCE_DIR}")
      if(EXISTS "${root}/${name}")
        file(REAL_PATH "${root}/${name}" path)
        list(APPEND found "${path}")
        break()
      endif()
    endforeach()
    if(NOT EXISTS "${path}")
      message(FATAL_ERROR "source ${name} is neither in the tree nor relocated; next: look in ${TORCH_PATCHES_DIR}")
    endif()
    unset(path)
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# Upstream glob patterns -> present absolute paths.
function(torch_cuda_glob result)
  set(found)
  foreach(pattern IN LISTS ARGN)
    toolkit_path(pattern "${pattern}")
    foreach(root "${SHADOW_DIR}" "${PYTORCH_SOURCE_DIR}")
      file(GLOB here CONFIGURE_DEPENDS "${root}/${pattern}")
      foreach(path IN LISTS here)
        file(REAL_PATH "${path}" path)
        list(APPEND found "${path}")
      endforeach()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# A list of build_variables.bzl -> present absolute paths.
function(torch_cuda_filelist result)
  torch_cuda_python(names torch_cuda_build.source_lists "${PYTORCH_SOURCE_DIR}/build_variables.bzl" ${ARGN})
  torch_cuda_resolve(found ${names})
  set(${result} ${found} PARENT_SCOPE)
endfunction()
