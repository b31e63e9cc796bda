# third_device_backend(NAME SOURCES file... [SIMULATED]): the library of a backend on the layer.
#
# Makes the target torch_NAME, libtorch_NAME.so: the layer, the backend's driver and kernels, and the code generated from
# its operators.yaml (in THIRD_DEVICE_GENERATED; setup.py writes it and runs this project). SIMULATED adds the simulated
# device. Sources may have suffixes of the compilers in the project's wrapped_cmake.toml. A vendor's own library is linked
# to the target as to any other:
#
#   find_package(AcmeRuntime REQUIRED)
#   target_link_libraries(torch_acme PRIVATE Acme::runtime)
#
# The install tree is what other code is built against, lib/ and include/ of the package; the Python module among it.

set(THIRD_DEVICE_COMMON "${CMAKE_CURRENT_LIST_DIR}/..")
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../tools/wrapped_cmake/cmake")
include(DeviceCompiler)
include(InstalledTorch)

function(third_device_backend name)
  cmake_parse_arguments(arg "SIMULATED" "" "SOURCES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "third_device_backend(${name}): '${arg_UNPARSED_ARGUMENTS}' belongs to nothing, SOURCES are "
                        "'${arg_SOURCES}'; next: third_device_backend(${name} SOURCES csrc/driver.cpp csrc/kernels.cpp)")
  endif()
  if(NOT EXISTS "${THIRD_DEVICE_GENERATED}/operators.cpp")
    message(FATAL_ERROR "no generated operators in '${THIRD_DEVICE_GENERATED}'; next: build with pip, which generates them "
                        "from operators.yaml and runs this project")
  endif()
  set(layer ${THIRD_DEVICE_COMMON})
  add_library(torch_${name} SHARED
    "${layer}/runtime/runtime.cpp" "${layer}/runtime/allocators.cpp" "${layer}/runtime/graphs.cpp"
    "${layer}/torch/device.cpp" "${layer}/torch/aten.cpp" "${layer}/torch/distributed.cpp" "${layer}/torch/graphs.cpp" "${layer}/torch/layouts.cpp"
    "${layer}/torch/profiler.cpp"
    $<$<BOOL:${arg_SIMULATED}>:${layer}/sim/sim_driver.cpp>
    "${THIRD_DEVICE_GENERATED}/operators.cpp")
  wrapped_cmake_sources(torch_${name} ${arg_SOURCES})
  set_target_properties(torch_${name} PROPERTIES
    CXX_STANDARD ${CORE_CXX_STANDARD} CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON DEFINE_SYMBOL "" # one name for all, so that backends share objects
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../torch/lib")
  target_include_directories(torch_${name} PRIVATE "${layer}/include" "${THIRD_DEVICE_GENERATED}")
  target_include_directories(torch_${name} SYSTEM PRIVATE "${CORE_HEADERS}" "${CORE_HEADERS}/torch/csrc/api/include")
  target_compile_definitions(torch_${name} PRIVATE ${CORE_DEFINITIONS})
  # Not every libtorch_cpu has Kineto, and the headers are there without it, too.
  execute_process(COMMAND "${CMAKE_NM}" -D --defined-only "${CORE_torch_cpu}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(symbols MATCHES " _ZN9libkineto3apiEv" AND EXISTS "${CORE_HEADERS}/kineto/libkineto.h")
    set_source_files_properties("${layer}/torch/profiler.cpp" PROPERTIES COMPILE_DEFINITIONS TD_KINETO=1)
    if(NOT EXISTS "${CORE_HEADERS}/fmt/format.h")
      set_source_files_properties("${layer}/torch/profiler.cpp" PROPERTIES INCLUDE_DIRECTORIES "${layer}/kineto")
    endif()
  endif()
  target_compile_options(torch_${name} PRIVATE -Wall -Wno-unknown-pragmas)
  find_package(Threads REQUIRED)
  target_link_libraries(torch_${name} PRIVATE core::torch_cpu core::c10 Threads::Threads)
  target_link_options(torch_${name} PRIVATE -Wl,--no-undefined)
  install(TARGETS torch_${name} LIBRARY DESTINATION lib)
  install(DIRECTORY "${layer}/include/third_device" DESTINATION include)
  if(NOT arg_SIMULATED)
    install(CODE "file(REMOVE \"\${CMAKE_INSTALL_PREFIX}/include/third_device/sim_driver.h\")")
  endif()
endfunction()
