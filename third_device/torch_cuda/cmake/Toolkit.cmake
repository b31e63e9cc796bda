# The toolkit: its languages and libraries (toolkit/*.cmake), and the libraries beside it.

toolkit_find()
include(Beside)
toolkit_find_headers()
if(USE_DISTRIBUTED AND USE_TENSORPIPE)
  torch_cuda_find(TENSORPIPE tensorpipe/tensorpipe_cuda.h tensorpipe_cuda "${TENSORPIPE_ROOT}")
  # The half without CUDA, where it is a library of its own; the core has loaded it before us.
  find_library(TENSORPIPE_BASE_LIBRARY tensorpipe HINTS "${TENSORPIPE_ROOT}"
               PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" "usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  if(TENSORPIPE_BASE_LIBRARY)
    set_property(TARGET dep::TENSORPIPE PROPERTY INTERFACE_LINK_LIBRARIES "${TENSORPIPE_BASE_LIBRARY}")
  endif()
endif()
