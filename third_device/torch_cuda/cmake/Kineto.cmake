# libtorch_kineto_cuda: the tracer's half of Kineto, which records kernels, copies and calls of the runtime for torch.profiler.
#
# The core's Kineto is built without one. The sources that the tracer changes are compiled here a second time, with it, under
# hidden names; all else of Kineto is asked of libtorch_cpu, which exports it. When the library is loaded its profiler takes
# the place of the core's (csrc/framework/profiler). Left out, with a line that says why, where it cannot be.

# Of Kineto's own list (TOOLKIT_TRACER_LIST), what the tracer changes nothing in and what has state that both halves must see.
set(KINETO_OF_THE_CORE AbstractConfig ActivityType Config ConfigLoader DaemonConfigLoader GenericTraceActivity ILoggerObserver
    IpcFabricConfigClient Logger LoggingAPI)

# Sets KINETO_MISSING to the reason why this build can have no such library; empty when it can.
function(torch_cuda_kineto_missing)
  set(KINETO_MISSING "" PARENT_SCOPE)
  find_path(KINETO_SOURCE_DIR ${TOOLKIT_TRACER_SOURCE} NO_DEFAULT_PATH
            HINTS "${PYTORCH_SOURCE_DIR}/third_party/kineto/libkineto" "${PYTORCH_SOURCE_DIR}/debian/kineto/libkineto")
  toolkit_find_tracer()
  if(NOT USE_KINETO)
    set(KINETO_MISSING "USE_KINETO=${USE_KINETO}" PARENT_SCOPE)
  elseif(NOT CORE_HAS_KINETO)
    set(KINETO_MISSING "${CORE_torch_cpu} has no Kineto" PARENT_SCOPE)
  elseif(NOT KINETO_SOURCE_DIR)
    set(KINETO_MISSING "no Kineto in ${PYTORCH_SOURCE_DIR}/third_party" PARENT_SCOPE)
  elseif(TOOLKIT_TRACER_MISSING)
    set(KINETO_MISSING "${TOOLKIT_TRACER_MISSING}" PARENT_SCOPE)
  else()
    # Classes cross from one half to the other, so they must be the same ones.
    file(GLOB installed RELATIVE "${CORE_HEADERS}/kineto" "${CORE_HEADERS}/kineto/*.h")
    foreach(header IN LISTS installed)
      file(SHA256 "${CORE_HEADERS}/kineto/${header}" theirs)
      set(ours)
      if(EXISTS "${KINETO_SOURCE_DIR}/include/${header}")
        file(SHA256 "${KINETO_SOURCE_DIR}/include/${header}" ours)
      endif()
      if(NOT theirs STREQUAL ours)
        set(KINETO_MISSING "the core's Kineto is another one (${header} is not that of ${KINETO_SOURCE_DIR}/include)" PARENT_SCOPE)
        break()
      endif()
    endforeach()
  endif()
endfunction()

torch_cuda_kineto_missing()
set(KINETO_SOURCES)
if(KINETO_MISSING)
  set(USE_KINETO OFF)
  message(STATUS "torch.profiler will record no ${TOOLKIT_NAME} activities: ${KINETO_MISSING}")
  return()
endif()
set(USE_KINETO ON)

execute_process(
  COMMAND "${Python_EXECUTABLE}" -c
          "exec(open('libkineto_defs.bzl').read()); print(';'.join(${TOOLKIT_TRACER_LIST}(with_api=False)), end='')"
  WORKING_DIRECTORY "${KINETO_SOURCE_DIR}" OUTPUT_VARIABLE KINETO_SOURCES COMMAND_ERROR_IS_FATAL ANY)
list(REMOVE_DUPLICATES KINETO_SOURCES)
list(JOIN KINETO_OF_THE_CORE "|" theirs)
list(FILTER KINETO_SOURCES EXCLUDE REGEX "^src/(${theirs})\\.cpp$")
list(TRANSFORM KINETO_SOURCES PREPEND "${KINETO_SOURCE_DIR}/")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${KINETO_SOURCE_DIR}/libkineto_defs.bzl")

set(KINETO_INCLUDE_DIRS "${KINETO_SOURCE_DIR}/include" "${KINETO_SOURCE_DIR}/src" "${KINETO_SOURCE_DIR}/third_party/dynolog"
    "${KINETO_SOURCE_DIR}/third_party/dynolog/dynolog/src/ipcfabric")

# As libkineto/CMakeLists.txt compiles them.
toolkit_tracer()
add_library(kineto_${TOOLKIT_TRACER}_objects OBJECT ${KINETO_SOURCES})
target_include_directories(kineto_${TOOLKIT_TRACER}_objects PRIVATE ${KINETO_INCLUDE_DIRS})
target_include_directories(kineto_${TOOLKIT_TRACER}_objects SYSTEM PRIVATE ${FMT_INCLUDE_DIR} ${TOOLKIT_TRACER_INCLUDE_DIRS})
target_compile_definitions(kineto_${TOOLKIT_TRACER}_objects PRIVATE ${CORE_DEFINITIONS} KINETO_NAMESPACE=libkineto FMT_HEADER_ONLY
                           ENABLE_IPC_FABRIC ${TOOLKIT_TRACER_DEFINITIONS})

set(kineto_own_source "${CMAKE_CURRENT_SOURCE_DIR}/torch_cuda/csrc/framework/profiler/kineto_${TOOLKIT_TRACER}.cpp")
add_library(torch_kineto_cuda SHARED "${kineto_own_source}" $<TARGET_OBJECTS:kineto_${TOOLKIT_TRACER}_objects>)
target_include_directories(torch_kineto_cuda PRIVATE ${KINETO_INCLUDE_DIRS})
target_compile_definitions(torch_kineto_cuda PRIVATE $<$<STREQUAL:${CORE_KIND},built>:TORCH_CUDA_CORE_BUILT>)
target_link_libraries(torch_kineto_cuda PRIVATE common ${TOOLKIT_TRACER_LIBRARIES} ${CMAKE_DL_LIBS} ${runtime_support})
file(WRITE "${CMAKE_BINARY_DIR}/kineto.exports" "{ global: torch_kineto_cuda_register; local: *; };\n")
target_link_options(torch_kineto_cuda PRIVATE ${strict_link} "-Wl,--version-script=${CMAKE_BINARY_DIR}/kineto.exports")
foreach(target kineto_${TOOLKIT_TRACER}_objects torch_kineto_cuda)
  target_compile_options(${target} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden -Wno-deprecated-declarations -O2)
endforeach()
list(APPEND OWN_LIBRARIES torch_kineto_cuda)
install(FILES "${KINETO_SOURCE_DIR}/../LICENSE" DESTINATION licenses/kineto)
