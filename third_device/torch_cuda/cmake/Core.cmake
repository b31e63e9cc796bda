# The installed core: its headers, libraries, version, ABI, and whether it is the patched one.
#
# Defines the imported targets core::c10, core::torch_cpu, core::torch_python and the variables TORCH_VERSION,
# CORE_VERSION, CORE_KIND, CORE_INCLUDE_DIR (a directory of links in the build tree, so that objects do not depend on
# where torch is installed).

find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)

if(TORCH_CUDA_CORE_PREFIX STREQUAL "")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '', end='')"
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" # never the source tree: its torch/ would win
    OUTPUT_VARIABLE torch_package)
  if(torch_package STREQUAL "")
    message(FATAL_ERROR "no torch is installed for ${Python_EXECUTABLE}; next: install the stage-1 wheel (or a stock CPU "
                        "build), or pass -DTORCH_CUDA_CORE_PREFIX=<prefix>")
  endif()
  get_filename_component(site "${torch_package}" DIRECTORY)
  get_filename_component(prefix "${site}/../../.." ABSOLUTE) # a distribution's /usr, or a venv
  set(core_hints "${torch_package}" "${prefix}")
else()
  file(GLOB packages "${TORCH_CUDA_CORE_PREFIX}/torch" "${TORCH_CUDA_CORE_PREFIX}/lib/python3*/dist-packages/torch"
       "${TORCH_CUDA_CORE_PREFIX}/lib/python3*/site-packages/torch" "${TORCH_CUDA_CORE_PREFIX}/version.py")
  list(FILTER packages INCLUDE REGEX "torch$|version.py$")
  if(packages STREQUAL "")
    message(FATAL_ERROR "${TORCH_CUDA_CORE_PREFIX} holds no torch package; next: pass the prefix that torch is installed under")
  endif()
  list(GET packages 0 torch_package)
  string(REGEX REPLACE "/version.py$" "" torch_package "${torch_package}")
  set(core_hints "${torch_package}" "${TORCH_CUDA_CORE_PREFIX}")
endif()

set(CORE_PACKAGE_DIR "${torch_package}")
file(STRINGS "${CORE_PACKAGE_DIR}/version.py" version_line REGEX "^__version__ *=")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${version_line}")
string(REGEX REPLACE "^__version__ *= *['\"]([^'\"]+)['\"].*$" "\\1" CORE_VERSION "${version_line}") # with its local part
file(STRINGS "${PYTORCH_SOURCE_DIR}/version.txt" source_version LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" source_version "${source_version}")
if(NOT TORCH_VERSION STREQUAL source_version)
  message(FATAL_ERROR "the installed torch is ${TORCH_VERSION} (${CORE_PACKAGE_DIR}), the source tree is ${source_version}; "
                      "next: install torch ${source_version}")
endif()

find_path(CORE_HEADERS "ATen/Config.h" HINTS ${core_hints} PATH_SUFFIXES include NO_DEFAULT_PATH REQUIRED)
foreach(library c10 torch_cpu torch_python)
  find_library(CORE_${library} ${library} HINTS ${core_hints}
               PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH)
  if(NOT CORE_${library})
    message(FATAL_ERROR "lib${library}.so not found under ${core_hints}; next: install torch ${source_version} with its "
                        "development files (Debian: libtorch-dev)")
  endif()
  add_library(core::${library} SHARED IMPORTED)
  set_target_properties(core::${library} PROPERTIES IMPORTED_LOCATION "${CORE_${library}}")
endforeach()

set(CORE_KIND "${TORCH_CUDA_CORE}")
if(CORE_KIND STREQUAL "auto")
  set(CORE_KIND stock)
  if(EXISTS "${CORE_PACKAGE_DIR}/_decoupled")
    set(CORE_KIND built)
  endif()
endif()
if(NOT CORE_KIND MATCHES "^(stock|built)$")
  message(FATAL_ERROR "TORCH_CUDA_CORE='${CORE_KIND}' is unknown; next: use stock, built or auto")
endif()

# What must be compiled as the core was. The C++11 ABI switch is in its CMake config; the CPU capabilities change the
# signature of DispatchStubImpl::get_call_ptr (one pointer for each), so its exported name tells them.
set(CORE_DEFINITIONS)
file(REAL_PATH "${CORE_torch_cpu}" core_library)
get_filename_component(core_lib_dir "${core_library}" DIRECTORY)
find_file(CORE_TORCH_CONFIG TorchConfig.cmake HINTS "${CORE_PACKAGE_DIR}/share/cmake/Torch" "${core_lib_dir}/cmake/Torch"
          NO_DEFAULT_PATH REQUIRED)
file(STRINGS "${CORE_TORCH_CONFIG}" abi_line REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
if(abi_line MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
  list(APPEND CORE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${CMAKE_MATCH_1}")
endif()
find_program(TORCH_CUDA_NM nm REQUIRED)
execute_process(COMMAND "${TORCH_CUDA_NM}" -D --defined-only "${CORE_torch_cpu}" OUTPUT_VARIABLE core_symbols)
if(NOT core_symbols MATCHES "DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPv((S[0-9]*_)*)")
  message(FATAL_ERROR "${CORE_torch_cpu} does not export DispatchStubImpl::get_call_ptr; next: check that it is libtorch_cpu "
                      "of PyTorch ${source_version}")
endif()
string(REGEX MATCHALL "S[0-9]*_" more_pointers "${CMAKE_MATCH_1}")
list(LENGTH more_pointers capabilities)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  if(capabilities GREATER 0)
    list(APPEND CORE_DEFINITIONS HAVE_AVX2_CPU_DEFINITION)
  endif()
  if(capabilities GREATER 1)
    list(APPEND CORE_DEFINITIONS HAVE_AVX512_CPU_DEFINITION)
  endif()
endif()
unset(core_symbols)

set(CORE_INCLUDE_DIR "${CMAKE_BINARY_DIR}/core_include")
file(MAKE_DIRECTORY "${CORE_INCLUDE_DIR}")
foreach(entry ATen c10 caffe2 torch)
  file(CREATE_LINK "${CORE_HEADERS}/${entry}" "${CORE_INCLUDE_DIR}/${entry}" SYMBOLIC)
endforeach()
