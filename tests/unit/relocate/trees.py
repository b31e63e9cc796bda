"""Small trees in PyTorch's layout, written for a test."""

from __future__ import annotations

FILES = {
    "build_variables.bzl": 'core = ["torch/csrc/a.cpp"]\nlibtorch_cmake_sources = sorted(core)\n'
    'libtorch_cuda_core_sources = ["torch/csrc/jit/passes/fuse_gpu.cpp"]\n',
    "aten/src/ATen/CMakeLists.txt": 'file(GLOB native_miopen_cpp "native/miopen/*.cpp")\n'
    "if(USE_CUDA)\n  list(APPEND ATen_CUDA_CPP_SRCS ${native_miopen_cpp})\nendif()\n",
    "aten/src/ATen/cuda/Context.h": "#pragma once\n",
    "aten/src/ATen/cuda/Context.cpp": "#include <ATen/cuda/Context.h>\n",
    "aten/src/ATen/native/sparse/cuda/Blas.cu": "",
    "aten/src/ATen/native/miopen/Conv.cpp": "",
    "aten/src/ATen/native/Add.cpp": "",
    "aten/src/THC/THCAtomics.cuh": "",
    "c10/core/Device.h": "#pragma once\n",
    "c10/cuda/CUDAStream.h": "#pragma once\n",
    "torch/csrc/a.cpp": "#include <torch/csrc/utils/cuda_enabled.h>\n#ifdef USE_CUDA\n"
    "#include <c10/cuda/CUDAStream.h>\n#endif\n",
    "torch/csrc/utils/cuda_enabled.h": "#pragma once\n",
    "torch/csrc/jit/passes/fuse_gpu.cpp": "",
    "torch/csrc/jit/passes/fuse_gpu.h": "",
    "torch/csrc/cuda/Module.cpp": "",
    "torch/cuda/__init__.py": "",
}
