"""A small tree with one coupling of each kind planted, and a file that has none."""

from __future__ import annotations

from pathlib import Path

from tests.support.files import write_files
from tests.unit.relocate.trees import FILES

#: file -> what is planted there
PLANTED = {
    "aten/src/ATen/cuda/Planted.cu": "__global__ void f() {}\n",
    "torch/csrc/planted_macro.cpp": "int a;\n#if defined(USE_CUDA) && !defined(OTHER)\n"
    "int b;\nint c;\n#else\nint d;\n#endif\n",
    "torch/csrc/planted_include.cpp": "#include <cuda_runtime.h>\n",
    "torch/csrc/planted_name.cpp": "void f() { c10::cuda::CUDACachingAllocator::get(); }\n",
    "torch/csrc/planted_dispatch.cpp": "bool f(const Tensor& t) { return t.is_cuda(); }\n"
    'bool g() { return device == at::kCUDA || s == "cuda"; }\n',
    "torch/planted.py": "import torch\n\nx = torch._C._cuda_plantedBinding(1)\n",
    "torch/CMakeLists.txt": "if(USE_CUDA)\n  list(APPEND SOURCES planted.cpp)\nendif()\n",
}
#: file -> a coupling to ROCm that is planted there; CUDA's words find none of them
OF_ROCM = {
    "c10/hip/Planted.h": "int f();\n",
    "torch/csrc/planted_rocm_macro.cpp": "int a;\n#ifdef USE_ROCM\nint b;\n#endif\n",
    "torch/csrc/planted_rocm_include.cpp": "#include <hip/hip_runtime.h>\n",
    "torch/csrc/planted_rocm_name.cpp": "void f() { c10::hip::getStream(); hipMalloc(); }\n",
    "torch/csrc/planted_rocm_dispatch.cpp": 'bool g() { return device == at::kHIP || s == "hip"; }\n',
    "torch/planted_rocm.cmake": "if(USE_ROCM)\n  set(X 1)\nendif()\n",
}
#: names CUDA everywhere it may be named without being a coupling
CONTROL = {
    "torch/csrc/control.cpp": "// USE_CUDA: see c10::cuda::CUDACachingAllocator and #ifdef USE_CUDA\n"
    '/*\n#ifdef USE_CUDA\n#include <cuda.h>\n#endif\n*/\nauto text = "c10::cuda::getCurrentCUDAStream()";\n'
    'auto raw = R"(\n#ifdef USE_CUDA\n#include <cuda.h>\n#endif\n)";\n#ifdef USE_MKLDNN\n#include <dnnl.h>\n#endif\n',
    "torch/csrc/control_rocm.cpp": "// USE_ROCM: hipMalloc\nint relationship, groupMembership, ownership_;\n",
    "torch/control.py": '"""Calls torch._C._cuda_getDeviceCount."""\n# torch._C._cuda_init()\nimport torch\n\n'
    "x = torch._C._get_tracing_state()\ny = torch.cuda.is_available()\n",
    "torch/control.cmake": "# if(USE_CUDA)\nif(USE_MKLDNN)\n  set(X 1)\nendif()\n",
}
UNITS = [name for name in (*PLANTED, *OF_ROCM, *CONTROL) if name.endswith(".cpp")]


def tree(root: Path) -> Path:
    """Write everything; the C++ files are translation units of stage 1."""
    units = ", ".join(f'"{name}"' for name in ["torch/csrc/a.cpp", *UNITS])
    files = {**FILES, **PLANTED, **OF_ROCM, **CONTROL}
    files["build_variables.bzl"] = f"libtorch_cmake_sources = [{units}]\nlibtorch_cuda_core_sources = []\n"
    return write_files(root, files)
