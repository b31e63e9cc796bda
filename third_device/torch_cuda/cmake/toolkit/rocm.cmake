# AMD's ROCm: what is this toolkit's and nobody else's (cuda.cmake says which names the modules ask for).
#
# Sources are translated by upstream's own hipify (torch_cuda_build/hipify.py); what upstream's build of ROCm compiles, and
# with what, stands in its aten/src/ATen/CMakeLists.txt, caffe2/CMakeLists.txt and cmake/Dependencies.cmake.

torch_cuda_option(ROCM_PATH "Prefix of ROCm, with bin/hipconfig and include/hip" "")
torch_cuda_option(PYTORCH_ROCM_ARCH "GPU architectures, e.g. 'gfx90a;gfx1100'" "")

set(TOOLKIT_NAME ROCm)
set(TOOLKIT_LANGUAGE HIP)
set(TOOLKIT_WORD hip) # libc10_hip, libtorch_hip, libtorch_python_hip
set(TOOLKIT_PACKAGE torch_hip)
set(TOOLKIT_SHADOW hipify)
set(TOOLKIT_COPIES ON)
set(TOOLKIT_TORCHGEN_FLAGS --rocm)
set(TOOLKIT_C10_DEFINITIONS C10_HIP_BUILD_MAIN_LIB)
set(TOOLKIT_TORCH_DEFINITIONS TORCH_HIP_BUILD_MAIN_LIB)
set(TOOLKIT_BESIDE_EVERYWHERE)
set(TOOLKIT_BESIDE_LINKED MAGMA UCC)
set(TOOLKIT_BESIDE_BINDINGS)
set(TOOLKIT_CMAKE_PACKAGE OFF) # find_package(Torch) asks for CUDA's toolkit where it finds us
set(TOOLKIT_TRACER roctracer)
set(TOOLKIT_TRACER_LIST get_libkineto_roctracer_srcs)
set(TOOLKIT_TRACER_SOURCE src/RoctracerActivityApi.cpp)
set(TOOLKIT_TRACER_DEFINITIONS HAS_ROCTRACER)

# What upstream calls a relocated file -> what hipify calls its translation. Below torch/csrc it translates in place.
function(toolkit_path result name)
  if(name MATCHES "^(aten|c10)/" AND NOT name MATCHES "/(miopen|hip|templates)/")
    string(REGEX REPLACE "/cudnn/([^/]*)$" "/cudnn/hip/\\1" name "${name}")
    string(REPLACE "/cuda" "/hip" name "${name}")
    string(REPLACE "CUDA" "HIP" name "${name}")
    string(REGEX REPLACE "\\.cu$" ".hip" name "${name}")
  endif()
  set(${result} "${name}" PARENT_SCOPE)
endfunction()

# Gigabytes that a check of the runtime does without, whatever is installed: the slice answers for them.
macro(rocm_find_mathematics)
  set(ROCM_MATHEMATICS)
  set(ROCM_ABSENT hipblas hipblaslt hipfft hiprand hipsolver hipsparse rocblas rocsolver MIOpen)
  if(NOT TORCH_CUDA_SLICE STREQUAL "runtime")
    foreach(library IN LISTS ROCM_ABSENT)
      find_library(ROCM_${library} ${library} HINTS ${rocm_libraries})
      if(ROCM_${library})
        list(APPEND ROCM_MATHEMATICS "${ROCM_${library}}")
        list(REMOVE_ITEM ROCM_ABSENT ${library})
      endif()
    endforeach()
  endif()
  list(JOIN ROCM_ABSENT ", " absent)
  if(ROCM_ABSENT AND NOT TORCH_CUDA_SLICE STREQUAL "runtime")
    message(FATAL_ERROR "ROCm ${HIP_VERSION} in ${ROCM_PATH} has no libraries of ${absent}; next: install them, or set TORCH_CUDA_SLICE=runtime")
  endif()
endmacro()

macro(toolkit_find)
  find_program(ROCM_HIPCONFIG hipconfig HINTS "${ROCM_PATH}/bin")
  if(NOT ROCM_HIPCONFIG)
    message(FATAL_ERROR "no hipconfig of ROCm found; next: install hipcc, or name the prefix of ROCm in ROCM_PATH")
  endif()
  if(ROCM_PATH STREQUAL "")
    execute_process(COMMAND "${ROCM_HIPCONFIG}" --rocmpath OUTPUT_VARIABLE ROCM_PATH OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  set(rocm_libraries "${ROCM_PATH}/lib" "${ROCM_PATH}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  # The compiler itself, for CMake wants no driver over it, and where its folder has the device's library of mathematics.
  execute_process(COMMAND "${ROCM_HIPCONFIG}" --hipclangpath OUTPUT_VARIABLE clang_folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_program(ROCM_CLANG NAMES clang++ HINTS "${clang_folder}" NO_DEFAULT_PATH)
  if(NOT ROCM_CLANG)
    message(FATAL_ERROR "no clang++ in '${clang_folder}', where ${ROCM_HIPCONFIG} says it is; next: install ROCm's clang, or set HIP_CLANG_PATH")
  endif()
  execute_process(COMMAND "${ROCM_CLANG}" -print-resource-dir OUTPUT_VARIABLE resources OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_path(ROCM_DEVICE_LIBRARIES ocml.bc HINTS "${resources}/amdgcn/bitcode" "${resources}/lib/amdgcn/bitcode" "${ROCM_PATH}/amdgcn/bitcode")
  if(NOT ROCM_DEVICE_LIBRARIES)
    message(FATAL_ERROR "no ocml.bc in ${resources} or ${ROCM_PATH}/amdgcn; next: install ROCm's device libraries (rocm-device-libs)")
  endif()

  string(REPLACE " " ";" rocm_archs "${PYTORCH_ROCM_ARCH}")
  set(TORCH_CUDA_ARCH_FLAGS)
  foreach(arch IN LISTS rocm_archs)
    if(NOT arch MATCHES "^gfx[0-9a-f]+((:[a-z]+[+-])*)$")
      message(FATAL_ERROR "PYTORCH_ROCM_ARCH='${PYTORCH_ROCM_ARCH}': ${arch} is no architecture; next: e.g. 'gfx90a;gfx1100'")
    endif()
    list(APPEND TORCH_CUDA_ARCH_FLAGS "${arch}")
  endforeach()
  if(NOT TORCH_CUDA_ARCH_FLAGS)
    message(FATAL_ERROR "PYTORCH_ROCM_ARCH='${PYTORCH_ROCM_ARCH}' names no architecture; next: e.g. 'gfx90a;gfx1100'")
  endif()
  set(CMAKE_HIP_ARCHITECTURES "${TORCH_CUDA_ARCH_FLAGS}")
  list(JOIN TORCH_CUDA_ARCH_FLAGS " " TORCH_CUDA_ARCH_FLAGS)

  # What a program is linked with while CMake tries the compiler is found by it in its own prefix only.
  list(JOIN rocm_libraries " -L" rocm_folders)
  set(CMAKE_HIP_COMPILER "${ROCM_CLANG}")
  set(CMAKE_HIP_COMPILER_ROCM_ROOT "${ROCM_PATH}")
  set(CMAKE_HIP_PLATFORM amd)
  string(STRIP "--rocm-path=${ROCM_PATH} --rocm-device-lib-path=${ROCM_DEVICE_LIBRARIES} -L${rocm_folders} -Wno-unused-command-line-argument $ENV{HIPFLAGS}" hip_flags)
  set(ENV{HIPFLAGS} "${hip_flags}") # an option set to nothing on the command line would be in its place
  list(APPEND CMAKE_PREFIX_PATH "${ROCM_PATH}")
  enable_language(HIP)
  set(CMAKE_HIP_STANDARD "${CMAKE_CXX_STANDARD}")
  set(CMAKE_HIP_STANDARD_REQUIRED ON)

  find_path(ROCM_INCLUDE_DIR hip/hip_version.h HINTS "${ROCM_PATH}/include" REQUIRED)
  torch_cuda_header_version(HIP_VERSION "${ROCM_INCLUDE_DIR}/hip/hip_version.h" HIP_VERSION_MAJOR HIP_VERSION_MINOR HIP_VERSION_PATCH)
  if(NOT HIP_VERSION MATCHES "^([0-9]+)\\.([0-9]+)\\.([0-9]+)$")
    message(FATAL_ERROR "${ROCM_INCLUDE_DIR}/hip/hip_version.h does not say its version; next: name ROCm's prefix in ROCM_PATH")
  endif()
  set(HIP_MAJOR "${CMAKE_MATCH_1}")
  set(HIP_MINOR "${CMAKE_MATCH_2}")
  set(TORCH_CUDA_VERSION "${HIP_MAJOR}.${HIP_MINOR}")
  foreach(library amdhip64 hiprtc roctx64)
    find_library(ROCM_${library} ${library} HINTS ${rocm_libraries} REQUIRED)
  endforeach()
  rocm_find_mathematics()

  set(TOOLKIT_RUNTIME "${ROCM_amdhip64}")
  set(TOOLKIT_RTC_LIBRARIES "${ROCM_amdhip64}" "${ROCM_hiprtc}")
  set(TOOLKIT_LIBRARIES ${ROCM_MATHEMATICS} "${ROCM_amdhip64}" "${ROCM_hiprtc}" "${ROCM_roctx64}")
  set(TOOLKIT_PYTHON_LIBRARIES "${ROCM_amdhip64}" "${ROCM_roctx64}")
  set(TOOLKIT_SLICE_FLAGS)
  if(ROCM_ABSENT)
    set(TOOLKIT_SLICE_FLAGS --others "^(hip|roc)(blas|sparse|solver|fft|rand)|^miopen|^_ZN?K?[0-9]+(hip|roc|cu)(blas|sparse)")
  endif()
  set(TOOLKIT_TAG "rocm${HIP_MAJOR}.${HIP_MINOR}")
  set(TOOLKIT_BUILD_INFO "\"hip\": \"${HIP_VERSION}\",\n  \"package\": \"${TOOLKIT_PACKAGE}\",\n  \"toolkit\": \"${TOOLKIT_NAME}\",\n  \"toolkit_version\": \"${TORCH_CUDA_VERSION}\",\n  \"word\": \"${TOOLKIT_WORD}\"")
  set(TOOLKIT_SETTINGS "{\"HIP_VERSION\", \"${HIP_VERSION}\"}, {\"USE_ROCM\", \"ON\"}")
  set(TOOLKIT_TORCH_VERSION "{\"hip\", \"${HIP_VERSION}\"}")
  set(TOOLKIT_SUMMARY "ROCm          ${HIP_VERSION}, ${ROCM_PATH}, ${CMAKE_HIP_COMPILER_ID} ${CMAKE_HIP_COMPILER_VERSION} ${CMAKE_HIP_COMPILER}"
      "left out      composable kernel, AOTriton, RCCL, TensorPipe")
  if(ROCM_ABSENT)
    list(APPEND TOOLKIT_SUMMARY "not here      ${absent}")
  endif()
  # Upstream's build has no channels of TensorPipe for this key, and its attention kernels are AOTriton's.
  set(USE_TENSORPIPE OFF)
  set(USE_FLASH_ATTENTION OFF)
  set(USE_MEM_EFF_ATTENTION OFF)
endmacro()

function(toolkit_other name library reason)
  set(${reason} "" PARENT_SCOPE)
endfunction()

# RCCL has NCCL's name and headers; that of Debian beside ROCm 6.4 is of NCCL 2.13, older than NCCLUtils.hpp takes.
macro(toolkit_find_beside)
  foreach(library CUDNN NCCL CUSPARSELT CUDSS CUFILE)
    set(USE_${library} OFF)
    set(${library}_WHY "not of ROCm, or not tried with it")
  endforeach()
endmacro()

macro(toolkit_find_headers)
endmacro()

macro(toolkit_flags)
  math(EXPR rocm_number "${HIP_MAJOR} * 10000 + ${HIP_MINOR} * 100")
  math(EXPR hip_number "${HIP_MAJOR} * 100 + ${HIP_MINOR}")
  set(TOOLKIT_DEFINITIONS USE_ROCM __HIP_PLATFORM_AMD__=1 CUDA_HAS_FP16=1 __HIP_NO_HALF_OPERATORS__=1 __HIP_NO_HALF_CONVERSIONS__=1
      TORCH_HIP_VERSION=${hip_number} ROCM_VERSION=${rocm_number} HIPBLAS_V2 HIP_NEW_TYPE_ENUMS CAFFE2_USE_MIOPEN
      THRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_HIP)
  # Names of templates as GCC writes them, which compiled the core.
  separate_arguments(more_flags UNIX_COMMAND "${TORCH_NVCC_FLAGS}")
  set(TOOLKIT_FLAGS -fclang-abi-compat=17 -fno-gpu-rdc -fvisibility-inlines-hidden -fno-math-errno -Wno-everything ${more_flags})
  set(TOOLKIT_DISTRIBUTED_DEFINITIONS)
  # CUDA's Thrust may lie in /usr/include. To clang's own search, where CMake finds ROCm's headers, too, they are the last.
  set(TOOLKIT_FIRST_INCLUDE_DIRS "${ROCM_INCLUDE_DIR}")
  list(APPEND TOOLKIT_FLAGS "SHELL:-isystem ${ROCM_INCLUDE_DIR}")
  if(TORCH_CUDA_SLICE STREQUAL "runtime")
    list(APPEND TOOLKIT_FLAGS -O1) # a quick check
  endif()
  # An unmodified core's headers were made without ROCm: the hooks lack a virtual function that ROCm's build then calls (0023 has
  # it at the end of the table, where it moves no other), and what USE_CUDA guards is hidden (0017). The applied tree's stand before,
  # for extensions (-DUSE_ROCM) as for us.
  if(CORE_KIND STREQUAL "stock")
    foreach(header aten/src/ATen/detail/CUDAHooksInterface.h aten/src/ATen/native/quantized/ConvUtils.h
                   torch/csrc/inductor/aoti_torch/c/shim.h)
      string(REGEX REPLACE "^aten/src/" "" installed "${header}")
      configure_file("${PYTORCH_SOURCE_DIR}/${header}" "${CMAKE_BINARY_DIR}/generated/instead/${installed}" COPYONLY)
      get_filename_component(folder "${installed}" DIRECTORY)
      install(FILES "${CMAKE_BINARY_DIR}/generated/instead/${installed}" DESTINATION "include/${folder}")
    endforeach()
  endif()
  # rocThrust includes CUDA's libcu++ where /usr/include has it. Its <nv/target> has the same include guard as rocThrust's own, and
  # makes AMD's device code the host's.
  set(own_target thrust/system/hip/detail/nv/target.h)
  if(EXISTS "${ROCM_INCLUDE_DIR}/${own_target}")
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/instead/nv/target" @ONLY CONTENT "#include <@own_target@>\n")
  endif()
  # Debian has no package of ROCm's own version header.
  find_path(ROCM_VERSION_INCLUDE_DIR rocm-core/rocm_version.h HINTS "${ROCM_INCLUDE_DIR}")
  if(NOT ROCM_VERSION_INCLUDE_DIR)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/instead/rocm-core/rocm_version.h" @ONLY CONTENT
         "#pragma once\n#define ROCM_VERSION_MAJOR @HIP_MAJOR@\n#define ROCM_VERSION_MINOR @HIP_MINOR@\n#define ROCM_VERSION_PATCH 0\n#define ROCM_BUILD_INFO \"@HIP_VERSION@\"\n")
  endif()
  set(TOOLKIT_OVERLAY_DIRS "${CMAKE_BINARY_DIR}/generated/instead")
  set(TOOLKIT_INCLUDE_DIRS)
  set(TOOLKIT_PIP_FOLDERS)
endmacro()

macro(toolkit_configure_headers)
  set(AT_CUDNN_ENABLED 0)
  set(AT_CUSPARSELT_ENABLED 0)
  set(AT_ROCM_ENABLED 1)
  set(NVCC_FLAGS_EXTRA "")
  set(C10_HIP_BUILD_SHARED_LIBS ON)
  torch_cuda_resolve(config_in aten/src/ATen/cuda/CUDAConfig.h.in)
  configure_file("${config_in}" "${CONFIG_DIR}/ATen/hip/HIPConfig.h")
  configure_file("${config_in}" "${CONFIG_DIR}/ATen/cuda/CUDAConfig.h") # native/miopen and jit_macros.h ask for it by this name
  torch_cuda_resolve(config_in c10/cuda/impl/cuda_cmake_macros.h.in)
  configure_file("${config_in}" "${CONFIG_DIR}/c10/hip/impl/hip_cmake_macros.h")
endmacro()

macro(toolkit_runtime_sources)
  list(FILTER ATEN_RUNTIME_SOURCES EXCLUDE REGEX "/LazyNVRTC\\.cpp$") # hiprtc is linked
  torch_cuda_glob(hip_sources "${ATEN}/hip/impl/*.cpp" "${ATEN}/miopen/*.cpp")
  list(APPEND ATEN_RUNTIME_SOURCES ${hip_sources})
endmacro()

macro(toolkit_listed_kernels result)
  set(${result}) # upstream's build of ROCm reads no list of kernels
endmacro()

macro(toolkit_torch_sources)
  # Not composable kernel's, whose functions HIPBlas.cpp calls all the same.
  list(FILTER ATEN_KERNEL_SOURCES EXCLUDE REGEX "/ck_[^/]*\\.hip$")
  list(APPEND ATEN_KERNEL_SOURCES "${CMAKE_CURRENT_SOURCE_DIR}/cmake/toolkit/rocm_without_ck.cpp")
endmacro()

macro(toolkit_python_sources)
  torch_cuda_resolve(dnn_bindings torch/csrc/cuda/shared/cudnn.cpp) # MIOpen answers under that name
  list(APPEND PYTHON_SOURCES ${dnn_bindings})
endmacro()

macro(toolkit_bindings)
  set(TOOLKIT_BINDINGS_DEFINITIONS)
endmacro()

macro(toolkit_source_properties)
  set(device_sources ${ATEN_RUNTIME_SOURCES} ${ATEN_KERNEL_SOURCES} ${codegen_sources} ${TORCH_SOURCES} ${DISTRIBUTED_SOURCES})
  list(FILTER device_sources INCLUDE REGEX "\\.(cu|hip)$")
  set_source_files_properties(${device_sources} PROPERTIES LANGUAGE HIP)
  if(TORCH_CUDA_SLICE STREQUAL "runtime")
    # half of its time is optimising what a check of names and tables runs once
    set_property(SOURCE ${codegen_sources} "${aoti_shim}" ${TORCH_SOURCES} ${DISTRIBUTED_SOURCES} ${PYTHON_SOURCES}
                 APPEND PROPERTY COMPILE_OPTIONS -O0)
  endif()
  # The core's header has CUDA's name for an event.
  torch_cuda_resolve(profiler_stubs torch/csrc/profiler/stubs/cuda.cpp)
  set_property(SOURCE ${profiler_stubs} APPEND PROPERTY COMPILE_DEFINITIONS CUevent_st=ihipEvent_t)
endmacro()

macro(toolkit_switches)
endmacro()

macro(toolkit_find_tracer)
  set(TOOLKIT_TRACER_MISSING "its half over roctracer is not built yet")
endmacro()

macro(toolkit_tracer)
  set(TOOLKIT_TRACER_INCLUDE_DIRS)
  set(TOOLKIT_TRACER_LIBRARIES)
endmacro()
