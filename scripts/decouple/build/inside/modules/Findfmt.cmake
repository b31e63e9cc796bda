# Debian's copy of Kineto asks for an installed fmt; upstream has added third_party/fmt to the build before it.
if(NOT TARGET fmt::fmt)
  message(FATAL_ERROR "Findfmt.cmake: no target fmt::fmt; next: look where upstream adds third_party/fmt in this release")
endif()
set(fmt_FOUND TRUE)
