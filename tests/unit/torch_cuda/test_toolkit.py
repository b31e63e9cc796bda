"""What is a vendor's stands in the description of its toolkit; the CMake around it serves every vendor."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from tests.support.files import write_files

CMAKE = find_project() / "third_device/torch_cuda/cmake"
#: The modules that a description is filled in for.
MODULES = (
    *("Toolkit", "Beside", "Relocation", "Codegen", "Sources", "Common", "Libraries", "Kineto"),
    *("Bindings", "Slice", "Install"),
)
#: Names of NVIDIA's and AMD's libraries, compilers and CMake packages. `cuda` alone is the name of the key.
VENDOR = re.compile(
    r"nvidia|nvcc|nvrtc|nvtx|nvtool|nvshmem|nvjitlink|nccl|cupti|cudnn|cublas|cufft|curand|cusolver|cusparse|cudss|cufile"
    r"|cudart|cutlass|\bcute_|sm_?[0-9]|compute_[0-9]|CUDAToolkit|CUDA::|CMAKE_CUDA|LANGUAGE:CUDA|language\(CUDA"
    r"|\bamd|\bgfx|rocm|roctracer|\brocprof|hipcc|hipblas|miopen|\brccl",
    re.IGNORECASE,
)
#: Sources are named by upstream's paths, and libraries of ours by upstream's names.
PATH = re.compile(r'"\$\{ATEN\}/[^"]*"|"torch/csrc/[^"]*"|native/miopen|(lib)?caffe2_nvrtc')


@pytest.mark.parametrize("module", MODULES)
def test_a_module_names_no_vendor(module: str) -> None:
    lines = PATH.sub("", (CMAKE / f"{module}.cmake").read_text()).splitlines()
    assert [line for line in lines if VENDOR.search(line)] == []


def test_a_description_has_all_that_the_modules_ask_for() -> None:
    """A name that no description sets is empty to CMake, and a macro that is not there stops it late."""
    texts = {path.stem: path.read_text() for path in (*CMAKE.glob("*.cmake"), CMAKE.parent / "CMakeLists.txt")}
    asked = {name for text in texts.values() for name in re.findall(r"\bTOOLKIT_[A-Z0-9_]+|\btoolkit_\w+(?=\()", text)}
    assert {"TOOLKIT_RUNTIME", "toolkit_find"} <= asked
    for description in sorted((CMAKE / "toolkit").glob("*.cmake")):
        given = set(re.findall(r"(?:set|macro|function)\((TOOLKIT_\w+|toolkit_\w+)", description.read_text()))
        assert asked <= given, description.name
        assert given - asked == set(), f"{description.name}: nobody reads them"


@pytest.mark.tools("cmake")
def test_an_unknown_toolkit_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "build_variables.bzl").touch()
    words = [
        "cmake",
        f"-DPYTORCH_SOURCE_DIR={tmp_path}",
        "-DTORCH_CUDA_TOOLKIT=acme",
        "-P",
        str(CMAKE / "Options.cmake"),
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert done.returncode
    assert "TORCH_CUDA_TOOLKIT='acme' is unknown" in said and "cuda.cmake" in said


#: What CUDA's build calls a file -> what upstream's hipify calls its translation (seen in its output for 2.6).
TRANSLATED = {
    "aten/src/ATen/cuda/*.cpp": "aten/src/ATen/hip/*.cpp",
    "aten/src/ATen/cuda/CUDAConfig.h.in": "aten/src/ATen/hip/HIPConfig.h.in",
    "aten/src/ATen/native/cuda/TensorShapeCUDA.cpp": "aten/src/ATen/native/hip/TensorShapeHIP.cpp",
    "aten/src/ATen/native/sparse/cuda/*.cu": "aten/src/ATen/native/sparse/hip/*.hip",
    "aten/src/ATen/native/cudnn/*.cpp": "aten/src/ATen/native/cudnn/hip/*.cpp",
    "aten/src/ATen/native/miopen/*.cpp": "aten/src/ATen/native/miopen/*.cpp",
    "aten/src/ATen/templates/*.*": "aten/src/ATen/templates/*.*",
    "c10/cuda/impl/cuda_cmake_macros.h.in": "c10/hip/impl/hip_cmake_macros.h.in",
    "torch/csrc/cuda/Module.cpp": "torch/csrc/cuda/Module.cpp",
    "torch/csrc/distributed/c10d/quantization/quantization_gpu.cu": (
        "torch/csrc/distributed/c10d/quantization/quantization_gpu.cu"
    ),
}


@pytest.mark.tools("cmake")
@pytest.mark.parametrize("toolkit", ["cuda", "rocm"])
def test_a_description_says_where_a_file_of_cudas_build_is_in_its_own(toolkit: str, tmp_path: Path) -> None:
    lines = [
        "function(torch_cuda_option)\nendfunction()",
        f"include({CMAKE}/toolkit/{toolkit}.cmake)",
        *(f'toolkit_path(path "{name}")\nfile(APPEND said "${{path}}\\n")' for name in TRANSLATED),
    ]
    (tmp_path / "ask.cmake").write_text("\n".join(lines))
    subprocess.run(["cmake", "-P", "ask.cmake"], cwd=tmp_path, check=True)
    expected = list(TRANSLATED.values() if toolkit == "rocm" else TRANSLATED)
    assert (tmp_path / "said").read_text().splitlines() == expected


MATHEMATICS = ["hipblas", "hipblaslt", "hipfft", "hiprand", "hipsolver", "hipsparse", "rocblas", "rocsolver", "MIOpen"]


@pytest.mark.tools("cmake")
@pytest.mark.parametrize(
    ("part", "installed", "linked"),
    [("all", MATHEMATICS, 9), ("runtime", MATHEMATICS, 0), ("runtime", [], 0), ("all", MATHEMATICS[:-2], None)],
)
def test_rocms_libraries_of_mathematics_are_for_the_whole_alone(
    part: str, installed: list[str], linked: int | None, tmp_path: Path
) -> None:
    """The slice is the same whatever is installed; the whole names what it lacks."""
    folder = tmp_path / "there"
    folder.mkdir()
    for name in installed:
        (folder / f"lib{name}.so").write_text("")
    lines = [
        "function(torch_cuda_option)\nendfunction()",
        f"include({CMAKE}/toolkit/rocm.cmake)",
        f'set(TORCH_CUDA_SLICE {part})\nset(rocm_libraries "{folder}")\nset(CMAKE_FIND_LIBRARY_PREFIXES lib)',
        "set(CMAKE_FIND_LIBRARY_SUFFIXES .so)\nset(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)",
        'rocm_find_mathematics()\nlist(LENGTH ROCM_MATHEMATICS linked)\nfile(WRITE said "${linked} ${absent}")',
    ]
    (tmp_path / "ask.cmake").write_text("\n".join(lines))
    done = subprocess.run(["cmake", "-P", "ask.cmake"], cwd=tmp_path, capture_output=True, text=True)
    if linked is None:
        assert done.returncode and "has no libraries of rocsolver, MIOpen;" in " ".join(done.stderr.split())
        return
    assert done.returncode == 0, done.stderr
    absent = [] if linked else MATHEMATICS
    assert (tmp_path / "said").read_text() == f"{linked} {', '.join(absent)}"


HOOKS = "ATen/detail/CUDAHooksInterface.h"


@pytest.mark.tools("cmake")
@pytest.mark.parametrize(("core", "brought"), [("stock", True), ("built", False)])
def test_rocms_extensions_get_the_headers_that_stood_before_an_unmodified_cores(
    core: str, brought: bool, tmp_path: Path
) -> None:
    """With -DUSE_ROCM, as extensions are compiled, hooks in the core header are not where libtorch_hip has them."""
    tree = tmp_path / "tree"
    names = (f"aten/src/{HOOKS}", "aten/src/ATen/native/quantized/ConvUtils.h")
    write_files(tree, dict.fromkeys(names, "// as the series has it\n"))
    shim = tree / "torch/csrc/inductor/aoti_torch/c/shim.h"
    shim.parent.mkdir(parents=True)
    shim.write_text("")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\n"
        "project(headers LANGUAGES NONE)\n"
        "function(torch_cuda_option)\nendfunction()\n"
        f"include({CMAKE}/toolkit/rocm.cmake)\n"
        f'set(CORE_KIND "{core}")\nset(PYTORCH_SOURCE_DIR "{tree}")\n'
        "set(HIP_MAJOR 6)\nset(HIP_MINOR 4)\n"
        "toolkit_flags()\n"
    )
    subprocess.run(["cmake", "-B", "build", "--install-prefix", tmp_path / "package"], cwd=tmp_path, check=True)
    subprocess.run(["cmake", "--install", "build"], cwd=tmp_path, check=True)
    installed = tmp_path / "package/include" / HOOKS
    assert installed.exists() is brought
    assert not brought or installed.read_text() == "// as the series has it\n"


@pytest.mark.tools("cmake", "c++")
def test_rocms_device_code_stays_so_where_cudas_headers_are_installed_too(tmp_path: Path) -> None:
    """rocThrust includes <cuda/std/...> wherever it is; both vendors' <nv/target> have one include guard."""
    for folder, header, word in (
        ("rocm", "thrust/system/hip/detail/nv/target.h", "device"),
        ("cuda", "nv/target", "host"),
    ):
        path = tmp_path / folder / header
        path.parent.mkdir(parents=True)
        path.write_text(f"#ifndef __NV_TARGET_H\n#define __NV_TARGET_H\n#define SIDE {word}\n#endif\n")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\n"
        "project(headers LANGUAGES NONE)\n"
        "function(torch_cuda_option)\nendfunction()\n"
        f"include({CMAKE}/toolkit/rocm.cmake)\n"
        f'set(CORE_KIND built)\nset(ROCM_INCLUDE_DIR "{tmp_path}/rocm")\n'
        "set(HIP_MAJOR 6)\nset(HIP_MINOR 4)\n"
        "toolkit_flags()\n"
        'file(WRITE "${CMAKE_BINARY_DIR}/first" "${TOOLKIT_OVERLAY_DIRS}")\n'
    )
    subprocess.run(["cmake", "-B", "build"], cwd=tmp_path, check=True)
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text("#include <nv/target>\n#include <thrust/system/hip/detail/nv/target.h>\nSIDE\n")
    first = (tmp_path / "build/first").read_text()
    folders = ["-I", first, "-isystem", str(tmp_path / "rocm"), "-idirafter", str(tmp_path / "cuda")]
    done = subprocess.run(["c++", "-E", "-P", *folders, str(kernel)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "device"


@pytest.mark.tools("cmake", "ninja", "c++")
@pytest.mark.parametrize("pools", ["", "link=1;cuda=2"])
def test_a_source_with_kernels_is_compiled_in_the_pool_that_memory_limits(pools: str, tmp_path: Path) -> None:
    """`WRAPPED_CMAKE_CUDA_JOB_MEMORY` made a pool that nothing was in: on 16 cores 16 compiles of 4 GiB ran at once."""
    lists = ("C10_CUDA_SOURCES", "RTC_STUB_SOURCES", "ATEN_KERNEL_SOURCES", "ATTENTION_KERNEL_SOURCES", "aoti_shim")
    functions = ("torch_cuda_glob", "torch_cuda_switch", "toolkit_source_properties", "toolkit_switches")
    (tmp_path / "kernel.cpp").touch()
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(kernels CXX)\nadd_library(common INTERFACE)\n"
        + "".join(f"set({name} kernel.cpp)\n" for name in lists)
        + "".join(f"function({name})\nendfunction()\n" for name in functions)
        + "".join(f"add_library({name} INTERFACE IMPORTED)\n" for name in ("core::torch_cpu", "core::c10"))
        + f"include({CMAKE}/Libraries.cmake)\n"
    )
    subprocess.run(["cmake", "-GNinja", "-B", "build", f"-DCMAKE_JOB_POOLS={pools}"], cwd=tmp_path, check=True)
    edges = (tmp_path / "build/build.ninja").read_text().split("\n\n")
    (compiled,) = (edge for edge in edges if edge.strip().startswith("build CMakeFiles/torch_cuda_objects.dir/kernel"))
    assert ("pool = cuda" in compiled) is bool(pools)


TORCHGEN = """
import pathlib, sys
given = dict(zip(sys.argv[1:], sys.argv[2:]))
listed = pathlib.Path(given["--output-dependencies"]).with_name("cuda_outputs.cmake")
listed.write_text("set(cuda_outputs {release}.cpp)")
"""


@pytest.mark.tools("cmake", "ninja")
def test_another_tree_has_other_generated_sources(tmp_path: Path) -> None:
    """Its files may be older than the list of outputs: the sources of the first tree were compiled."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(generated NONE)\n"
        'function(torch_cuda_glob result)\nfile(GLOB found "${PYTORCH_SOURCE_DIR}/${ARGN}")\n'
        "set(${result} ${found} PARENT_SCOPE)\nendfunction()\nfunction(toolkit_configure_headers)\nendfunction()\n"
        f'include({CMAKE}/Codegen.cmake)\nmessage("compiled: ${{codegen_sources}}")\n'
    )
    for release in ("first", "second"):
        tree = tmp_path / release
        for name, text in (
            ("torchgen/gen.py", TORCHGEN.replace("{release}", release)),
            ("aten/src/ATen/native/native_functions.yaml", ""),
            ("aten/src/ATen/templates/RegisterDispatchKey.cpp", ""),
        ):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
            os.utime(tree / name, (0, 0))
        options = [f"-DPYTORCH_SOURCE_DIR={tree}", f"-DPython_EXECUTABLE={sys.executable}"]
        command = ["cmake", "-GNinja", "-S", tmp_path, "-B", tmp_path / "build", *options]
        done = subprocess.run(command, capture_output=True, text=True)
        assert f"compiled: {release}.cpp" in done.stderr, done.stderr
