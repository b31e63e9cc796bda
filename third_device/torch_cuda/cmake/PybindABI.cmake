# pybind11 shares types only between modules whose registry has one name, and that name tells the compiler's ABI: its exact
# version (…_cxxabi1011__), or from pybind11 3 on a family of versions (…_gxx_abi_1xxx_…), which every GCC of today is of.

# Sets <result> to the options that give us the registry of <library> (empty where none are needed), <known> to whether it
# names one that we know.
function(torch_cuda_pybind_abi result known library)
  set(${result} "" PARENT_SCOPE)
  set(${known} ON PARENT_SCOPE)
  file(STRINGS "${library}" registry REGEX "__pybind11_internals_v" LIMIT_COUNT 1)
  if(registry MATCHES "_cxxabi10([0-9][0-9])__")
    set(${result} "-fabi-version=${CMAKE_MATCH_1}" PARENT_SCOPE)
  elseif(NOT registry MATCHES "_gxx_abi_1xxx_")
    set(${known} OFF PARENT_SCOPE)
  endif()
endfunction()
