# TORCH_CUDA_SLICE=runtime: libtorch_cuda from part of the sources. What the rest would define is answered by generated
# stubs that throw with the name of the missing function: the library loads and registers every operator, and says what it
# cannot do. It is for checks, not for use; the wheel's version carries ".slice".

enable_language(ASM)
set(slice_stubs "${CMAKE_BINARY_DIR}/slice_stubs.S")
# The bindings use libtorch_cuda's functions too, so their objects count as users.
add_custom_command(
  OUTPUT "${slice_stubs}"
  COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${CMAKE_CURRENT_SOURCE_DIR}" PYTHONDONTWRITEBYTECODE=1
          "${Python_EXECUTABLE}" -m torch_cuda_build.slice_stubs --nm "${TORCH_CUDA_NM}" --out "${slice_stubs}" ${TOOLKIT_SLICE_FLAGS}
          --library "${CORE_c10}" --library "${CORE_torch_cpu}" --library "${CORE_torch_python}" --library "$<TARGET_FILE:c10_cuda>"
          "$<TARGET_OBJECTS:torch_cuda_objects>" "$<TARGET_OBJECTS:torch_python_cuda_objects>"
  DEPENDS c10_cuda torch_cuda_objects "$<TARGET_OBJECTS:torch_cuda_objects>" "$<TARGET_OBJECTS:torch_python_cuda_objects>"
          "${CMAKE_CURRENT_SOURCE_DIR}/torch_cuda_build/slice_stubs.py"
  COMMAND_EXPAND_LISTS VERBATIM COMMENT "stubs for what this slice leaves out")
target_sources(torch_cuda PRIVATE "${slice_stubs}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/slice_missing.cpp")
target_link_libraries(torch_cuda PRIVATE common)
