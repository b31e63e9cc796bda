# How a library beside the CUDA toolkit is found, and the header-only ones that every build of ours reads.

# Defines the imported target dep::NAME. Stops the configuration when the header or the library is not there.
function(torch_cuda_find name header library hint)
  find_path(${name}_INCLUDE_DIR "${header}" HINTS ${hint} PATH_SUFFIXES include usr/include)
  find_library(${name}_LIBRARY NAMES ${library} HINTS ${hint}
               PATH_SUFFIXES lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}" "usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${name}: ${header} or lib${library} not found; next: set ${name}_ROOT to its prefix, or USE_${name}=0")
  endif()
  add_library(dep::${name} UNKNOWN IMPORTED)
  set_target_properties(dep::${name} PROPERTIES IMPORTED_LOCATION "${${name}_LIBRARY}"
                                                INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
endfunction()

# A version out of the #define lines of these names (regular expressions); empty where there are none.
function(torch_cuda_header_version result file)
  set(version)
  foreach(name IN LISTS ARGN)
    set(line)
    if(EXISTS "${file}")
      file(STRINGS "${file}" line REGEX "#define +${name} +[0-9]+" LIMIT_COUNT 1)
    endif()
    if(line MATCHES "([0-9]+) *$")
      list(APPEND version "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  list(JOIN version "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

find_path(FMT_INCLUDE_DIR fmt/core.h HINTS "${PYTORCH_SOURCE_DIR}/third_party/fmt/include" REQUIRED)
find_path(NLOHMANN_INCLUDE_DIR nlohmann/json.hpp HINTS "${PYTORCH_SOURCE_DIR}/third_party/nlohmann/include" REQUIRED)
find_path(PYBIND11_INCLUDE_DIR pybind11/pybind11.h
          HINTS "${CORE_HEADERS}" "${PYTORCH_SOURCE_DIR}/third_party/pybind11/include" REQUIRED)
