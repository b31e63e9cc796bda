# How newdevicecc is called.
set(CMAKE_newdevice_COMPILE_OBJECT
    "<CMAKE_newdevice_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -std=c++${CMAKE_CXX_STANDARD} -O2 -fPIC -o <OBJECT> -c <SOURCE>")
set(CMAKE_INCLUDE_FLAG_newdevice "-I")
set(CMAKE_INCLUDE_SYSTEM_FLAG_newdevice "-isystem ")
set(CMAKE_newdevice_DEPFILE_FORMAT gcc)
set(CMAKE_DEPFILE_FLAGS_newdevice "-MD -MT <DEP_TARGET> -MF <DEP_FILE>")
set(CMAKE_newdevice_INFORMATION_LOADED 1)
