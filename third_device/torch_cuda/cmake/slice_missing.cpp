// What a call to a function outside of the slice does (cmake/Slice.cmake). The stubs jump here, so the exception unwinds
// into their caller.
#include <c10/util/Exception.h>

extern "C" [[noreturn]] void torch_cuda_missing(const char* name);

void torch_cuda_missing(const char* name) {
  C10_THROW_ERROR(
      NotImplementedError,
      std::string(name) +
          " is not part of this slice of torch_cuda (TORCH_CUDA_SLICE=runtime); build with TORCH_CUDA_SLICE=all");
}
