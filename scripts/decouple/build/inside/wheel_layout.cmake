# Included by CMake right after upstream's project() (CMAKE_PROJECT_Torch_INCLUDE), in the Debian root only.
#
# Debian's 1020-dirtyhack.patch fits the libraries into /usr/lib: versioned names, and no run path. A wheel has neither a
# system directory nor links (each name would be a copy), so both are as upstream has them: libtorch_cpu.so, found by its
# neighbours through $ORIGIN.
set(HAVE_SOVERSION OFF)

function(decouple_run_paths)
  foreach(library IN ITEMS c10 shm torch torch_cpu torch_global_deps torch_python)
    if(NOT TARGET ${library})
      message(FATAL_ERROR "wheel_layout.cmake: upstream has no target ${library}; next: look for its new name in the tree")
    endif()
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endforeach()
endfunction()
cmake_language(DEFER CALL decouple_run_paths)
