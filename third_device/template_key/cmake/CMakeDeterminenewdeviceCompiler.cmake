# The language newdevice, as CMake asks for it: newdevicecc takes what g++ takes.
find_program(CMAKE_newdevice_COMPILER NAMES "$ENV{NEWDEVICECC}" newdevicecc HINTS "$ENV{NEWDEVICE_HOME}/bin" REQUIRED)
set(CMAKE_newdevice_COMPILER_ENV_VAR NEWDEVICECC)
set(CMAKE_newdevice_OUTPUT_EXTENSION .o)
configure_file("${CMAKE_CURRENT_LIST_DIR}/CMakenewdeviceCompiler.cmake.in"
               "${CMAKE_PLATFORM_INFO_DIR}/CMakenewdeviceCompiler.cmake" @ONLY)
