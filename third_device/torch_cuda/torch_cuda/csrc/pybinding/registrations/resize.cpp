// Resizing of CUDA storages, for UntypedStorage.resize_ and inductor::resize_storage_bytes_ of a core without CUDA.

#include <ATen/native/Resize.h>
#include <ATen/native/cuda/Resize.h>

namespace at::native {

REGISTER_CUDA_DISPATCH(resize_bytes_stub, &resize_bytes_cuda)

} // namespace at::native
