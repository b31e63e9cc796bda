# libtorch_python_cuda and _CUDAC.

if(USE_CUSPARSELT)
  torch_cuda_resolve(cusparselt_bindings torch/csrc/cuda/shared/cusparselt.cpp)
  list(APPEND PYTHON_SOURCES ${cusparselt_bindings}) # libcusparseLt itself is in the process for libtorch_cuda
endif()
torch_cuda_switch(CUSPARSELT "CUSPARSELT" "USE_CUSPARSELT" ${PYTHON_SOURCES})
torch_cuda_switch(CUFILE "CUFILE" "USE_CUFILE" ${PYTHON_SOURCES})
torch_cuda_switch(UCC "UCC" "USE_C10D_UCC" ${PYTHON_SOURCES})

add_library(torch_python_cuda_objects OBJECT ${PYTHON_SOURCES})
target_compile_definitions(torch_python_cuda_objects PRIVATE THP_BUILD_MAIN_LIB $<$<BOOL:${USE_DISTRIBUTED}>:USE_C10D>)
set_property(SOURCE "${OWN_PYTHON_DIR}/registrations/bindings.cpp" APPEND PROPERTY
             COMPILE_DEFINITIONS $<$<STREQUAL:${CORE_KIND},built>:TORCH_CUDA_CORE_BUILT> $<$<BOOL:${USE_CUFILE}>:TORCH_CUDA_HAS_CUFILE>)
# The settings of torch.__config__.show() that are ours: upstream's, and the libraries that upstream has no setting for.
set(settings "{\"CUDA_VERSION\", \"${TORCH_CUDA_VERSION}\"}, {\"CUDNN_VERSION\", \"${CUDNN_VERSION}\"}, {\"USE_CUDA\", \"ON\"}")
foreach(library IN LISTS BESIDE)
  set(state OFF)
  if(USE_${library})
    set(state ON)
  endif()
  string(APPEND settings ", {\"USE_${library}\", \"${state}\"}")
endforeach()
set_property(SOURCE "${OWN_PYTHON_DIR}/registrations/config.cpp" APPEND PROPERTY COMPILE_DEFINITIONS "TORCH_CUDA_SETTINGS=${settings}")
# pybind11 shares types only between modules of one compiler ABI version, which the name of its registry tells
# (__pybind11_internals_v5_gcc_libstdcpp_cxxabi1011__): compile by the core's.
file(STRINGS "${CORE_torch_python}" pybind_registry REGEX "__pybind11_internals_v" LIMIT_COUNT 1)
set(core_abi_version)
if(pybind_registry MATCHES "_cxxabi10([0-9][0-9])__")
  set(core_abi_version "-fabi-version=${CMAKE_MATCH_1}")
elseif(TORCH_CUDA_KERNELS)
  message(FATAL_ERROR "${CORE_torch_python} does not name pybind11's registry; next: check that it is libtorch_python of a GCC build")
endif()
target_compile_options(torch_python_cuda_objects PRIVATE -fvisibility=default -fno-strict-aliasing ${core_abi_version})
target_include_directories(torch_python_cuda_objects SYSTEM PRIVATE "${PYBIND11_INCLUDE_DIR}" ${Python_INCLUDE_DIRS})
target_link_libraries(torch_python_cuda_objects PRIVATE common)
add_library(torch_python_cuda SHARED $<TARGET_OBJECTS:torch_python_cuda_objects>)
set_target_properties(torch_python_cuda PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(torch_python_cuda PRIVATE core::torch_python core::torch_cpu core::c10 torch_cuda c10_cuda CUDA::cudart CUDA::nvToolsExt)
if(USE_CUDNN)
  target_link_libraries(torch_python_cuda PRIVATE dep::CUDNN)
endif()
if(USE_CUFILE)
  target_link_libraries(torch_python_cuda PRIVATE dep::CUFILE)
endif()
target_link_libraries(torch_python_cuda PRIVATE ${runtime_support})
foreach(source IN LISTS PYTHON_SOURCES)
  if(source MATCHES "/pybinding/Module.cpp$|torch/csrc/cuda/Module.cpp$")
    # without quotes of its own: Module.cpp makes the string, and torch.cuda.get_arch_list() splits it at its spaces
    set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_DEFINITIONS "CUDA_ARCH_FLAGS=${TORCH_CUDA_ARCH_FLAGS}")
  endif()
endforeach()

# What the patches add to libtorch_cuda, where that is not compiled from the patched tree. A stock core asks for none of it.
if(TORCH_CUDA_KERNELS AND CORE_KIND STREQUAL "built" AND TORCH_VERSION VERSION_LESS 2.7)
  add_library(torch_cuda_patched SHARED "${CMAKE_CURRENT_SOURCE_DIR}/torch_cuda/csrc/imported/generator.cpp")
  target_link_libraries(torch_cuda_patched PRIVATE common torch_cuda c10_cuda ${runtime_support})
  list(APPEND OWN_LIBRARIES torch_cuda_patched)
endif()

Python_add_library(_CUDAC MODULE WITH_SOABI "${OWN_PYTHON_DIR}/_cudac_module.cpp")
target_include_directories(_CUDAC SYSTEM PRIVATE "${PYBIND11_INCLUDE_DIR}")
target_compile_options(_CUDAC PRIVATE ${core_abi_version})
target_compile_definitions(_CUDAC PRIVATE TORCH_CUDA_VERSION="${TORCH_CUDA_VERSION}"
                           $<$<BOOL:${static_launcher}>:HAS_STATIC_LAUNCHER> $<$<BOOL:${fast_launcher}>:HAS_FAST_LAUNCHER>)
target_link_libraries(_CUDAC PRIVATE common core::torch_python torch_python_cuda torch_cuda)
set(extension_rpath ${rpath})
list(TRANSFORM extension_rpath REPLACE "^.ORIGIN/\\.\\./\\.\\./" "$ORIGIN/../")
set_target_properties(_CUDAC PROPERTIES INSTALL_RPATH "$ORIGIN/lib;${extension_rpath}")

if(TORCH_CUDA_SLICE STREQUAL "runtime")
  include(Slice)
endif()
