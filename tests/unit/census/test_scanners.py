"""Each scanner on text: forms that are easy to miss."""

from __future__ import annotations

import pytest

from decouple.census import build_files, cpp, python
from decouple.census import taxonomy as taxonomies
from decouple.census.finding import RawFinding
from decouple.inventory import rules as rule_files

TAXONOMY = taxonomies.load_taxonomy(undefined=rule_files.load_rules().stage1.undefined)
MOVED = frozenset({"ATen/cuda/CUDAContext.h"})


def in_cpp(text: str) -> list[RawFinding]:
    return cpp.scan_cpp("torch/csrc/x.cpp", text, TAXONOMY, MOVED, names=True)


@pytest.mark.parametrize(
    ("text", "symbol", "extent", "lines"),
    [
        ("#ifdef USE_CUDA\na\n#endif\n", "USE_CUDA", (1, 3), 1),
        ("#ifndef USE_CUDA\na\n#else\nb\nc\n#endif\n", "USE_CUDA", (1, 6), 2),
        ("#if A\na\n#elif defined(USE_CUDA)\nb\n#endif\n", "USE_CUDA", (1, 5), 1),
        ("#if defined(USE_CUDA) || defined(A)\na\n#endif\n", "USE_CUDA", (1, 3), 0),
        ("#if defined(USE_CUDNN) && defined(USE_CUDA)\na\n#if B\nb\n#endif\n#endif\n", "USE_CUDA+USE_CUDNN", (1, 6), 4),
        ("#if defined( \\\n  USE_C10D_NCCL)\na\n#endif\n", "USE_C10D_NCCL", (1, 4), 2),
    ],
)
def test_guarded_regions(text: str, symbol: str, extent: tuple[int, int], lines: int) -> None:
    (found,) = [raw for raw in in_cpp(text) if raw.category == "macro"]
    assert (found.symbol, (found.line, found.end_line), found.lines, found.needs_vendor) == (
        symbol,
        extent,
        lines,
        True,
    )


@pytest.mark.parametrize("text", ["#cmakedefine CAFFE2_USE_CUDNN\n", "#cmakedefine01 CAFFE2_USE_CUDNN\n"])
def test_a_macro_that_cmake_fills_in(text: str) -> None:
    (found,) = cpp.scan_cpp(
        "caffe2/core/macros.h.in", f"{text}#cmakedefine CAFFE2_USE_MKL\n", TAXONOMY, MOVED, names=True
    )
    assert (found.symbol, found.line, found.needs_vendor) == ("CAFFE2_USE_CUDNN", 1, True)


def test_what_kineto_was_built_with_is_a_build_macro() -> None:
    (found,) = in_cpp("#if A && \\\n  !defined(LIBKINETO_NOCUPTI)\na\n#elif A\nb\n#endif\n")
    assert (found.symbol, found.line, found.end_line, found.needs_vendor) == ("LIBKINETO_NOCUPTI", 1, 6, True)


def test_a_nested_conditional_is_a_finding_of_its_own() -> None:
    found = in_cpp("#ifdef USE_CUDA\n#ifdef USE_NCCL\na\n#endif\n#endif\n")
    assert [(raw.symbol, raw.line, raw.end_line) for raw in found] == [("USE_CUDA", 1, 5), ("USE_NCCL", 2, 4)]


def test_a_compiler_macro_needs_nothing_of_stage_1() -> None:
    (found,) = in_cpp("#if defined(__CUDACC__)\n__device__ int x;\n#endif\n")
    assert (found.category, found.needs_vendor) == ("macro", False)


def test_a_macro_used_in_code() -> None:
    (found,) = in_cpp("if (AT_CUDNN_ENABLED()) {}\nTORCH_API int x;\n")
    assert (found.symbol, found.needs_vendor) == ("AT_CUDNN_ENABLED", True)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("self.is_cuda()", "dispatch"),
        ("c10::DeviceType::CUDA", "dispatch"),
        ("DispatchKey::AutogradCUDA", "dispatch"),
        ("at::globalContext().hasCUDA()", "dispatch"),
        ("at::detail::getCUDAHooks().getNumGPUs()", "dispatch"),
        ("at::cudnn_convolution(x)", "dispatch"),
        ("at::cuda::getCurrentCUDAStream()", "name"),
        ("cudaStreamSynchronize(s)", "name"),
        ("ncclComm_t_ ncclGetVersion()", "name"),
        ("at::native::resize_bytes_cuda(x, 1)", "name"),
        ("::c10d::ProcessGroupNCCL::Options o", "name"),
        ("bool use_cuda = false", "mention"),
        ("TORCH_LIBRARY_IMPL(aten, SparseCUDA, m) {}", "dispatch"),
    ],
)
def test_names_are_judged(name: str, category: str) -> None:
    found = in_cpp(f"{name};\n")
    assert {raw.category for raw in found} == {category}, found


@pytest.mark.parametrize(
    ("written", "symbol", "category"),
    [
        ("f ? at::kCUDA : at::kCPU", "at::kCUDA", "dispatch"),
        ("f ? CUDA_VERSION : 0", "CUDA_VERSION", "macro"),
        ("f ? USE_CUDA : USE_ROCM", "USE_CUDA", "macro"),
        ("default : at::cuda::f()", "at::cuda::f", "name"),
        ("f ? x : ::at::cuda::f()", "at::cuda::f", "name"),
    ],
)
def test_one_colon_is_no_part_of_a_name(written: str, symbol: str, category: str) -> None:
    for text in (written, written.replace(" ", "")):
        (found,) = in_cpp(f"{text};\n")
        assert (found.symbol, found.category) == (symbol, category)


def test_names_in_comments_and_strings_are_no_code() -> None:
    assert in_cpp('// at::cuda::f()\n/* cudaMalloc */ auto s = "at::cuda::f()";\n') == []


def in_python(text: str) -> set[tuple[str, str]]:
    assert python.may_access_binding(text.encode(), TAXONOMY) or not python.scan_python("torch/x.py", text, TAXONOMY)
    return {(raw.symbol, raw.detail.partition(";")[0]) for raw in python.scan_python("torch/x.py", text, TAXONOMY)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch\ntorch._C._cuda_init()\n", {("_cuda_init", "attribute")}),
        ("from torch import _C\n_C._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch._C as C\nC._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch\nC = torch._C\nC._nccl_init_rank\n", {("_nccl_init_rank", "attribute")}),
        ("from torch._C import (\n  _cuda_init,\n  _other,\n)\n", {("_cuda_init", "from-import")}),
        ("from torch._C._cudart import cudaError\n", {("_cudart", "from-import"), ("cudaError", "from-import")}),
        ("from torch._C._distributed_c10d import ProcessGroupNCCL\n", {("ProcessGroupNCCL", "from-import")}),
        ("import torch\ntorch._C._distributed_c10d.ProcessGroupNCCL\n", {("ProcessGroupNCCL", "attribute")}),
        (
            "import torch._C._aoti as A\nA.AOTIModelContainerRunnerCuda\n",
            {("AOTIModelContainerRunnerCuda", "attribute")},
        ),
        ("from torch._C import _distributed_c10d as c\nc.ProcessGroupNCCL\n", {("ProcessGroupNCCL", "attribute")}),
        ("x = f'from torch._C import _cuda_get as {name}'\n", {("_cuda_get", "emitted text")}),
        ("x = 'y = torch._C._cuda_get(0)'\n", {("_cuda_get", "emitted text")}),
        ("import torch._C._cudart\n", {("_cudart", "import")}),
        ("import torch\nhasattr(torch._C, '_cuda_getDeviceCount')\n", {("_cuda_getDeviceCount", "getattr")}),
        ("x = {'torch._C._cuda_init': 1}\n", {("_cuda_init", "string")}),
        ("import torch\ntorch._C \\\n  ._cuda_init()\n", {("_cuda_init", "attribute")}),
        ("import torch\ntorch.cuda.init()\ntorch._C._jit_init()\n", set()),
        (
            "from torch._C._distributed_c10d import _SymmetricMemory\n_SymmetricMemory.DeviceType.CUDA\n",
            {("CUDA", "attribute")},
        ),
        ("from torch._C import (  # see (1)\n  _a,\n  _cuda_init)\n", {("_cuda_init", "from-import")}),
        ("from torch._C._a import (  # see (1)\n  _b,\n  _cuda_init)\n", {("_cuda_init", "from-import")}),
        ("import torch\nC = (torch._C)\nC._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch\nC = \\\n  torch._C\nC._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch as T\nC = T._C\nC._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch\nhasattr(torch._C,  # or not\n  '_cuda_init')\n", {("_cuda_init", "getattr")}),
        ("import torch\n(torch._C._a)._cuda_init\n", {("_cuda_init", "attribute")}),
        ("import torch\n(torch._C._a  # b\n  ._cuda_init)\n", {("_cuda_init", "attribute")}),
        ("from torch._C import _a as b\nb._cuda_init\n", {("_cuda_init", "attribute")}),
        ("from torch._C import _a\n(_a).b._cuda_init\n", {("_cuda_init", "attribute")}),
        ("from torch import _C, _ops\n_C. \\\n  _cuda_init\n", {("_cuda_init", "attribute")}),
        ("x = 'from torch._C import (\\n_cuda_init)'\n", {("_cuda_init", "emitted text")}),
        ("x = ('from torch._C import '\n  '_cuda_init')\n", {("_cuda_init", "emitted text")}),
        ("x = ('torch._C._a'\n  '._cuda_init')\n", {("_cuda_init", "string")}),
        ("from torch._C import ()\n", set()),
        ("x = 'from torch._CUDAC import _cuda_init'\n", set()),
        ('"""torch._C._cuda_init"""\n', set()),
        ("self._C._cuda_init()\n", set()),
        ("def broken(:\n", set()),
    ],
)
def test_python_forms(text: str, found: set[tuple[str, str]]) -> None:
    assert in_python(text) == found


def test_a_cmake_condition_and_its_elses() -> None:
    text = (
        'option(USE_CUDA "Use CUDA" ON) # if(USE_NCCL)\nif(USE_XPU)\n  x()\nelseif(USE_CUDA AND NOT MSVC)\n  y(cuda)\n'
        "  z()\nelse()\n  w()\nendif()\n"
    )
    found = build_files.scan_build_file("CMakeLists.txt", text, TAXONOMY)
    branch = [(raw.symbol, raw.line, raw.end_line, raw.lines) for raw in found if raw.detail == "branch"]
    assert branch == [("USE_CUDA AND NOT MSVC", 2, 9, 2)]
    assert [raw.symbol for raw in found if raw.detail != "branch"] == ["USE_CUDA", "Use CUDA"]


@pytest.mark.parametrize(
    "line",
    [
        "add_subdirectory(third_party/cudaFHE)",
        "find_package(CUDAToolkit REQUIRED)",
        "enable_language(CUDA)",
        "project(Torch LANGUAGES CXX CUDA)",
        "target_link_libraries(torch_cpu PRIVATE CUDA::cudart)",
    ],
)
def test_what_every_build_does_counts(line: str) -> None:
    (found,) = build_files.scan_build_file("CMakeLists.txt", f"{line}\n", TAXONOMY)
    assert (found.needs_vendor, found.detail.partition(":")[0]) == (True, "unconditional")
    for guarded in (f"if(USE_CUDA)\n  {line}\nendif()\n", f"if(BUILD_X)\n  {line}\nendif()\n"):
        assert not any(one.needs_vendor for one in build_files.scan_build_file("CMakeLists.txt", guarded, TAXONOMY))
    inside = build_files.scan_build_file("cmake/x.cmake", f"macro(with_cuda)\n  {line}\nendmacro()\n", TAXONOMY)
    assert not any(one.needs_vendor for one in inside)


def test_setup_py_branches() -> None:
    text = '"""USE_CUDA"""\nif build_options["USE_CUDA"]:\n    a = 1\n    b = 2\nc = "nccl"\n'
    found = [
        (raw.symbol, raw.line, raw.lines, raw.detail) for raw in build_files.scan_build_file("setup.py", text, TAXONOMY)
    ]
    assert found == [("USE_CUDA", 2, 2, "branch"), ("nccl", 5, 1, "outside any CUDA branch")]
