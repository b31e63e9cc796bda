# The PyTorch that a backend is built against: the one that Python_EXECUTABLE imports, or the one below TORCH_PREFIX.
#
# Asks torch's own files instead of find_package(Torch), whose config of a CUDA build wants the CUDA toolkit. Defines the
# imported targets core::c10, core::torch_cpu and core::torch_python, and
#
#   CORE_PACKAGE_DIR   the Python package
#   CORE_VERSION       its version with the local part; TORCH_VERSION is the release without it
#   CORE_HEADERS       the folder of ATen/, c10/ and torch/
#   CORE_CXX_STANDARD  what its headers need, unless CMAKE_CXX_STANDARD is set
#   CORE_CXX11_ABI     1 or 0: whether it has the C++11 ABI of libstdc++; where its files do not say (2.15), it has
#   CORE_DEFINITIONS   what must be compiled as torch was: the C++11 ABI of libstdc++

find_package(Python 3.9 REQUIRED COMPONENTS Interpreter)

if("${TORCH_PREFIX}" STREQUAL "")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '', end='')"
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" # never a source tree: its torch/ would win
    OUTPUT_VARIABLE CORE_PACKAGE_DIR)
  if(CORE_PACKAGE_DIR STREQUAL "")
    message(FATAL_ERROR "no torch is installed for ${Python_EXECUTABLE}; next: pip install torch, or pass the prefix of one, or "
                        "--no-build-isolation to a pip that hides an installed one from the build")
  endif()
  get_filename_component(site "${CORE_PACKAGE_DIR}" DIRECTORY)
  get_filename_component(prefix "${site}/../../.." ABSOLUTE) # a distribution's /usr, or a venv
  set(core_hints "${CORE_PACKAGE_DIR}" "${prefix}")
else()
  file(GLOB packages "${TORCH_PREFIX}/torch" "${TORCH_PREFIX}/lib/python3*/dist-packages/torch"
       "${TORCH_PREFIX}/lib/python3*/site-packages/torch" "${TORCH_PREFIX}/version.py")
  list(FILTER packages INCLUDE REGEX "torch$|version.py$")
  if(packages STREQUAL "")
    message(FATAL_ERROR "${TORCH_PREFIX} holds no torch package; next: pass the prefix that torch is installed under")
  endif()
  list(GET packages 0 CORE_PACKAGE_DIR)
  string(REGEX REPLACE "/version.py$" "" CORE_PACKAGE_DIR "${CORE_PACKAGE_DIR}")
  set(core_hints "${CORE_PACKAGE_DIR}" "${TORCH_PREFIX}")
endif()

file(STRINGS "${CORE_PACKAGE_DIR}/version.py" version_line REGEX "^__version__ *=")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" TORCH_VERSION "${version_line}")
string(REGEX REPLACE "^__version__ *= *['\"]([^'\"]+)['\"].*$" "\\1" CORE_VERSION "${version_line}")

# What is found stays in CMake's cache: look again when the package lies elsewhere than it did.
if(NOT "${CORE_FOUND_BESIDE}" STREQUAL "${CORE_PACKAGE_DIR}")
  foreach(found HEADERS c10 torch_cpu torch_python TORCH_CONFIG)
    unset(CORE_${found} CACHE)
  endforeach()
  set(CORE_FOUND_BESIDE "${CORE_PACKAGE_DIR}" CACHE INTERNAL "the torch package that CORE_* belong to")
endif()

find_path(CORE_HEADERS "ATen/Config.h" HINTS ${core_hints} PATH_SUFFIXES include NO_DEFAULT_PATH REQUIRED)
foreach(library c10 torch_cpu torch_python)
  find_library(CORE_${library} ${library} HINTS ${core_hints}
               PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" NO_DEFAULT_PATH)
  if(NOT CORE_${library})
    message(FATAL_ERROR "lib${library}.so not found under ${core_hints}; next: install torch ${TORCH_VERSION} with its "
                        "development files (Debian: libtorch-dev)")
  endif()
  add_library(core::${library} SHARED IMPORTED)
  set_target_properties(core::${library} PROPERTIES IMPORTED_LOCATION "${CORE_${library}}")
endforeach()

file(REAL_PATH "${CORE_torch_cpu}" core_library)
get_filename_component(core_lib_dir "${core_library}" DIRECTORY)
find_file(CORE_TORCH_CONFIG TorchConfig.cmake HINTS "${CORE_PACKAGE_DIR}/share/cmake/Torch" "${core_lib_dir}/cmake/Torch"
          NO_DEFAULT_PATH REQUIRED)
# Another torch may be installed in the same folder: ninja then runs CMake first.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CORE_PACKAGE_DIR}/version.py" "${CORE_TORCH_CONFIG}")
set(CORE_DEFINITIONS)
set(CORE_CXX11_ABI 1)
file(STRINGS "${CORE_TORCH_CONFIG}" abi_line REGEX "_GLIBCXX_USE_CXX11_ABI=[01]")
if(abi_line MATCHES "_GLIBCXX_USE_CXX11_ABI=([01])")
  set(CORE_CXX11_ABI "${CMAKE_MATCH_1}")
  list(APPEND CORE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${CORE_CXX11_ABI}")
endif()
set(CORE_CXX_STANDARD "${CMAKE_CXX_STANDARD}")
if(NOT CORE_CXX_STANDARD)
  # a property until 2.13 at least, a compile feature in 2.15
  file(STRINGS "${CORE_TORCH_CONFIG}" standard_line REGEX "CXX_STANDARD +[0-9]+|cxx_std_[0-9]+")
  if(NOT standard_line MATCHES "(CXX_STANDARD +|cxx_std_)([0-9]+)")
    message(FATAL_ERROR "${CORE_TORCH_CONFIG} does not say which C++ standard torch ${TORCH_VERSION} needs; next: set "
                        "CMAKE_CXX_STANDARD in the environment, e.g. to 20")
  endif()
  set(CORE_CXX_STANDARD "${CMAKE_MATCH_2}")
endif()
