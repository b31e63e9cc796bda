# find_package(Torch) with torch_cuda beside it. Installed into torch's own folder share/cmake/Caffe2, where the file that
# CMake generated of torch's targets, Caffe2Targets.cmake, includes every Caffe2Targets-*.cmake. So it is read by any core,
# whichever way a project found it, and no file of torch is changed.

include("${CMAKE_CURRENT_LIST_DIR}/../../../../torch_cuda/share/cmake/TorchCUDA/InTorch.cmake" OPTIONAL)
