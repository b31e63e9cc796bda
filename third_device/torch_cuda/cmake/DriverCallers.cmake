# DRIVER_CALLERS: those of DISTRIBUTED_SOURCES that may call the driver (c10/cuda/driver_api.h). Upstream's own build names
# them in caffe2/CMakeLists.txt, and each release adds some.
file(READ "${PYTORCH_SOURCE_DIR}/caffe2/CMakeLists.txt" upstreams)
set(callers)
if(upstreams MATCHES "([^()]+)PROPERTIES COMPILE_FLAGS \"-DPYTORCH_C10_DRIVER_API_SUPPORTED=1\"")
  string(REGEX MATCHALL "distributed/c10d/[^ \n]+" callers "${CMAKE_MATCH_1}")
endif()
unset(upstreams)
if(DISTRIBUTED_SOURCES AND NOT callers)
  message(FATAL_ERROR "${PYTORCH_SOURCE_DIR}/caffe2/CMakeLists.txt gives no source of c10d PYTORCH_C10_DRIVER_API_SUPPORTED; "
                      "next: look what upstream does instead, and do it in ${CMAKE_CURRENT_LIST_FILE}")
endif()
set(DRIVER_CALLERS)
foreach(source IN LISTS DISTRIBUTED_SOURCES)
  string(REGEX MATCH "distributed/c10d/.*$" upstreams_name "${source}")
  if(upstreams_name IN_LIST callers)
    list(APPEND DRIVER_CALLERS "${source}")
  endif()
endforeach()
