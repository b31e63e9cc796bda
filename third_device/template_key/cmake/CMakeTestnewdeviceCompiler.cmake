# newdevicecc is known to work when it says which one it is.
execute_process(COMMAND "${CMAKE_newdevice_COMPILER}" --version RESULT_VARIABLE newdevice_works OUTPUT_QUIET ERROR_QUIET)
if(NOT newdevice_works EQUAL 0)
  message(FATAL_ERROR "${CMAKE_newdevice_COMPILER} --version fails; next: check NEWDEVICE_HOME")
endif()
set(CMAKE_newdevice_COMPILER_WORKS 1)
