# Included by CMake right after upstream's project() (CMAKE_PROJECT_Torch_INCLUDE) where third_party comes from
# Debian's source packages: what those ask of the system is answered with what the build has.
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/modules")
# XNNPACK compiles 3,100 more objects for its own tests and benchmarks; nothing of PyTorch links them.
set(XNNPACK_BUILD_ALL_MICROKERNELS OFF CACHE BOOL "")
# Of sleef's testers alone, and it would be cloned while everything else is compiled, without a network.
set(SLEEF_ENABLE_TLFLOAT OFF CACHE BOOL "")
# An assembler source of oneDNN's does not say that it needs no executable stack, and one such object is enough for a
# library to ask for it: glibc 2.41 (Debian 13) then opens it no more.
add_link_options("LINKER:-z,noexecstack")
# Upstream hides MKL's functions in libtorch_cpu where it links the archives. Those of the official one are exported, and
# the official libtorch_cuda_linalg takes BLAS and LAPACK from there, as a library of a user's own may.
function(decouple_export_mkl)
  if(TARGET caffe2::mkl)
    set_property(TARGET caffe2::mkl PROPERTY INTERFACE_LINK_OPTIONS)
  endif()
endfunction()
cmake_language(DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL decouple_export_mkl)
