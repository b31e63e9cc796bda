# The install tree is the torch_cuda package: libraries, extension, headers at their upstream names, CMake config,
# build_info.json. The Python files are added by the wheel's backend (torch_cuda_build).

install(TARGETS torch_python_cuda ${OWN_LIBRARIES} LIBRARY DESTINATION lib)
if(TORCH_CUDA_KERNELS)
  # as they are: install(TARGETS) would strip them
  install(FILES ${KERNEL_LIBRARIES} DESTINATION lib)
  install(DIRECTORY "${TORCH_CUDA_KERNELS}/licenses" DESTINATION . OPTIONAL)
  install(FILES "${TORCH_CUDA_KERNELS}/kernels.json" DESTINATION . OPTIONAL)
else()
  set(KERNELS_KIND "compiled")
  install(TARGETS c10_cuda caffe2_nvrtc torch_cuda LIBRARY DESTINATION lib)
endif()
install(TARGETS _CUDAC LIBRARY DESTINATION .)
if(TARGET dep::TENSORPIPE)
  # Nobody else ships TensorPipe's CUDA half; its soname is looked up beside us ($ORIGIN).
  file(REAL_PATH "${TENSORPIPE_LIBRARY}" tensorpipe_file)
  get_filename_component(tensorpipe_name "${tensorpipe_file}" NAME)
  install(FILES "${tensorpipe_file}" DESTINATION lib)
endif()

if(TARGET dep::MAGMA AND NOT MAGMA_LIBRARY MATCHES "\\.a$")
  # Nor is there a package of MAGMA; BLAS and LAPACK, which it needs, are the system's.
  torch_cuda_dynamic("${MAGMA_LIBRARY}" magma_name _)
  file(REAL_PATH "${MAGMA_LIBRARY}" magma_file)
  install(FILES "${magma_file}" DESTINATION lib RENAME "${magma_name}")
endif()

# Headers under the names that #include lines use. The shadow tree's links are followed.
install(CODE "
  file(GLOB_RECURSE headers FOLLOW_SYMLINKS RELATIVE \"${SHADOW_DIR}\"
    \"${SHADOW_DIR}/aten/src/*.h\" \"${SHADOW_DIR}/aten/src/*.cuh\" \"${SHADOW_DIR}/c10/*.h\" \"${SHADOW_DIR}/torch/csrc/*.h\" \"${SHADOW_DIR}/torch/csrc/*.hpp\")
  foreach(header IN LISTS headers)
    if(header MATCHES \"/test/\")
      continue()
    endif()
    string(REGEX REPLACE \"^aten/src/\" \"\" name \"\${header}\")
    get_filename_component(folder \"\${name}\" DIRECTORY)
    file(INSTALL \"${SHADOW_DIR}/\${header}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/include/\${folder}\" FOLLOW_SYMLINK_CHAIN)
  endforeach()")
install(DIRECTORY "${CONFIG_DIR}/" DESTINATION include FILES_MATCHING PATTERN "*.h")

if(TOOLKIT_CMAKE_PACKAGE)
  foreach(file TorchCUDAConfig InTorch OpenedByName)
    configure_file(cmake/${file}.cmake.in "${CMAKE_BINARY_DIR}/${file}.cmake" @ONLY)
  endforeach()
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/TorchCUDAConfigVersion.cmake" VERSION "${TORCH_VERSION}" COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/TorchCUDAConfig.cmake" "${CMAKE_BINARY_DIR}/TorchCUDAConfigVersion.cmake"
    "${CMAKE_BINARY_DIR}/InTorch.cmake" "${CMAKE_BINARY_DIR}/OpenedByName.cmake" DESTINATION share/cmake/TorchCUDA)
endif()

string(REPLACE " " "\", \"" arch_json "${TORCH_CUDA_ARCH_FLAGS}")
set(SLICE_TAG)
if(TORCH_CUDA_SLICE STREQUAL "runtime")
  set(SLICE_TAG ".slice")
endif()
set(KERNELS_TAG)
if(NOT KERNELS_KIND STREQUAL "compiled")
  set(KERNELS_TAG ".${KERNELS_KIND}")
endif()
set(libraries_json)
foreach(library IN LISTS BESIDE)
  string(TOLOWER "${library}" name)
  set(version "off")
  if(USE_${library})
    set(version "${${library}_VERSION}")
  endif()
  if(version STREQUAL "")
    set(version "on")
  endif()
  list(APPEND libraries_json "\"${name}\": \"${version}\"")
endforeach()
if(KERNELS_KIND STREQUAL "compiled") # others' kernels do not say whether they have it
  set(version "off")
  if(TARGET dep::TENSORPIPE)
    set(version "on")
  endif()
  list(APPEND libraries_json "\"tensorpipe\": \"${version}\"")
endif()
list(JOIN libraries_json ", " libraries_json)
set(REVISION_TAG) # tells published builds of one release apart; no option, because it must not stay in the cache
if(NOT "$ENV{TORCH_CUDA_REVISION}" STREQUAL "")
  set(REVISION_TAG ".$ENV{TORCH_CUDA_REVISION}")
endif()
file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/build_info.json" @ONLY CONTENT [[{
  "arch_list": ["@arch_json@"],
  "core": "@CORE_KIND@",
  "core_version": "@CORE_VERSION@",
  @TOOLKIT_BUILD_INFO@,
  "cxx11_abi": "@CORE_CXX11_ABI@",
  "flash_attention": "@USE_FLASH_ATTENTION@",
  "kernels": "@KERNELS_KIND@",
  "kineto": "@USE_KINETO@",
  "libraries": {@libraries_json@},
  "mem_eff_attention": "@USE_MEM_EFF_ATTENTION@",
  "python": "@Python_SOABI@",
  "slice": "@TORCH_CUDA_SLICE@",
  "torch": "@TORCH_VERSION@",
  "version": "@TORCH_VERSION@+@TOOLKIT_TAG@@KERNELS_TAG@@SLICE_TAG@@REVISION_TAG@"
}
]])
install(FILES "${CMAKE_BINARY_DIR}/build_info.json" DESTINATION .)
