# What all of our compilations and links share.

toolkit_flags()
set(INCLUDE_DIRS
  ${TOOLKIT_OVERLAY_DIRS} "${CONFIG_DIR}" "${SHADOW_DIR}/aten/src" "${SHADOW_DIR}"
  "${CORE_INCLUDE_DIR}" "${CORE_INCLUDE_DIR}/torch/csrc/api/include"
  "${CODEGEN_DIR}" "${CMAKE_BINARY_DIR}/generated"
  # Headers that torch does not install come from the tree, last.
  "${PYTORCH_SOURCE_DIR}/aten/src" "${PYTORCH_SOURCE_DIR}")
list(FILTER INCLUDE_DIRS EXCLUDE REGEX "^$") # nothing is generated beside imported kernels
set(THIRD_PARTY_INCLUDE_DIRS ${TOOLKIT_FIRST_INCLUDE_DIRS} "${FMT_INCLUDE_DIR}" "${NLOHMANN_INCLUDE_DIR}" ${TOOLKIT_INCLUDE_DIRS})
list(FILTER THIRD_PARTY_INCLUDE_DIRS EXCLUDE REGEX "NOTFOUND$|^$")
list(REMOVE_DUPLICATES THIRD_PARTY_INCLUDE_DIRS)

set(HOST_FLAGS -O2 -fvisibility-inlines-hidden -fno-math-errno -fno-trapping-math -Wno-deprecated-declarations)
# Everything that all of our compilations share.
add_library(common INTERFACE)
if(TARGET torch_cuda_codegen)
  add_dependencies(common torch_cuda_codegen)
endif()
target_include_directories(common INTERFACE ${INCLUDE_DIRS})
target_include_directories(common SYSTEM INTERFACE ${THIRD_PARTY_INCLUDE_DIRS})
target_compile_definitions(common INTERFACE
  ${CORE_DEFINITIONS} AT_PER_OPERATOR_HEADERS FMT_HEADER_ONLY=1 _FILE_OFFSET_BITS=64 ${TOOLKIT_DEFINITIONS})
if(USE_DISTRIBUTED)
  target_compile_definitions(common INTERFACE USE_DISTRIBUTED USE_RPC $<$<BOOL:${USE_TENSORPIPE}>:USE_TENSORPIPE>
                             ${TOOLKIT_DISTRIBUTED_DEFINITIONS})
endif()
target_compile_options(common INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${HOST_FLAGS}> "$<$<COMPILE_LANGUAGE:${TOOLKIT_LANGUAGE}>:${TOOLKIT_FLAGS}>")
find_package(Threads REQUIRED) # a library of its own before glibc 2.34
target_link_libraries(common INTERFACE core::torch_cpu core::c10 Threads::Threads)
foreach(library IN LISTS TOOLKIT_BESIDE_EVERYWHERE)
  if(USE_${library})
    target_compile_definitions(common INTERFACE USE_${library})
    target_include_directories(common SYSTEM INTERFACE "${${library}_INCLUDE_DIR}")
  endif()
endforeach()
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

# Run-time search: our own directory, the vendor's packages of pip, and torch's lib, all siblings in site-packages.
set(rpath "$ORIGIN")
foreach(folder IN LISTS TOOLKIT_PIP_FOLDERS)
  list(APPEND rpath "$ORIGIN/../../${folder}")
endforeach()
list(APPEND rpath "$ORIGIN/../../torch/lib")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "${rpath}")
set(strict_link "-Wl,--no-undefined" "-Wl,-z,now" "-Wl,--as-needed")
# GCC 14 marks its reference to __cxa_call_terminate hidden under -fvisibility=hidden, so libstdc++.so cannot answer it:
# the static half does, after the shared one has answered everything else.
set(runtime_support $<$<CXX_COMPILER_ID:GNU>:stdc++> $<$<CXX_COMPILER_ID:GNU>:supc++>)
