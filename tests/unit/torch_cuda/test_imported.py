"""Kernels that others compiled, of CUDA 12 and of CUDA 13: what CMake makes of NVIDIA's wheels beside them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project

CMAKE = find_project() / "third_device/torch_cuda/cmake"
PROJECT = """
cmake_minimum_required(VERSION 3.24)
project(ask LANGUAGES C)
set(CMAKE_C_STANDARD 11)
foreach(core torch_cpu c10 torch_python)
  add_library(core::${core} INTERFACE IMPORTED)
endforeach()
include(toolkit/cuda)
include(Dependencies)
include(Imported)
include(Common)
get_target_property(defines common INTERFACE_COMPILE_DEFINITIONS)
get_target_property(includes common INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
file(GENERATE OUTPUT told CONTENT "$<JOIN:${defines},
>
")
foreach(name TORCH_CUDA_VERSION USE_CUFILE NVTX_LIBRARY includes CMAKE_INSTALL_RPATH)
  file(APPEND "${CMAKE_BINARY_DIR}/values" "${name}=${${name}}\\n")
endforeach()
"""

pytestmark = pytest.mark.tools("cmake", "cc")


def library(path: Path, *needs: Path) -> Path:
    """A shared library called as its file is, which needs others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-nostdlib", "-x", "c", "-", "-o", str(path), f"-Wl,-soname,{path.name},--no-as-needed"]
    subprocess.run([*command, "-x", "none", *map(str, needs)], input="int it;", text=True, check=True)
    return path


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """Kernels without libraries of NVIDIA's yet, and a tree with the headers that every build reads."""
    folder = tmp_path / "kernels"
    for name in ("c10_cuda", "torch_cuda", "caffe2_nvrtc"):
        library(folder / f"lib/lib{name}.so")
    write(folder / "include/ATen/cuda/CUDAConfig.h", '#define NVCC_FLAGS_EXTRA "arch=compute_90,code=sm_90"\n')
    for name in (
        "fmt/include/fmt/core.h",
        "nlohmann/include/nlohmann/json.hpp",
        "pybind11/include/pybind11/pybind11.h",
    ):
        write(tmp_path / "tree/third_party" / name)
    return folder


def cuda_12(kernels: Path) -> None:
    """Each library of the toolkit in a wheel and a folder of its own, NVTX among them."""
    write(kernels / "cuda/nvidia/cuda_runtime/include/cuda_runtime_api.h", "#define CUDART_VERSION 12040\n")
    library(kernels / "cuda/nvidia/cuda_runtime/lib/libcudart.so.12")
    library(kernels / "cuda/nvidia/nvtx/lib/libnvToolsExt.so.1")


def cuda_13(kernels: Path) -> None:
    """One folder for all of the toolkit; NVTX is headers alone, libcu++ stands below cccl."""
    toolkit = kernels / "cuda/nvidia/cu13"
    write(toolkit / "include/cuda_runtime_api.h", "#define CUDART_VERSION 13020\n")
    write(toolkit / "include/nvtx3/nvtx3.hpp")
    write(toolkit / "include/cccl/cuda/std/array")
    library(toolkit / "lib/libcudart.so.13")


def configure(kernels: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    source = kernels.parent / "ask"
    write(source / "CMakeLists.txt", PROJECT)
    values = {
        "CMAKE_MODULE_PATH": CMAKE,
        "TORCH_CUDA_KERNELS": kernels,
        "PYTORCH_SOURCE_DIR": kernels.parent / "tree",
        **dict(one.split("=") for one in settings),
    }
    command = [
        "cmake",
        "-S",
        str(source),
        "-B",
        str(source / "build"),
        *(f"-D{name}={value}" for name, value in values.items()),
    ]
    return subprocess.run(command, capture_output=True, text=True)


def answers(kernels: Path, *settings: str) -> dict[str, str]:
    done = configure(kernels, *settings)
    assert done.returncode == 0, done.stderr
    build = kernels.parent / "ask/build"
    told = dict(line.split("=", 1) for line in (build / "values").read_text().splitlines())
    return {**told, "defines": (build / "told").read_text()}


def test_nvtx_is_a_library_of_cuda_12(kernels: Path) -> None:
    cuda_12(kernels)
    told = answers(kernels)
    assert told["TORCH_CUDA_VERSION"] == "12.4" and told["NVTX_LIBRARY"] == "CUDA::nvToolsExt"
    assert "TORCH_CUDA_USE_NVTX3" not in told["defines"] and "cu13" not in told["CMAKE_INSTALL_RPATH"]


def test_nvtx_is_headers_of_cuda_13(kernels: Path) -> None:
    cuda_13(kernels)
    told = answers(kernels)
    assert told["TORCH_CUDA_VERSION"] == "13.2" and not told["NVTX_LIBRARY"]
    assert "TORCH_CUDA_USE_NVTX3" in told["defines"].splitlines()


def test_the_folders_of_cuda_13_are_searched_for_headers_and_libraries(kernels: Path) -> None:
    cuda_13(kernels)
    told = answers(kernels)
    toolkit = str(kernels / "cuda/nvidia/cu13/include")
    assert {toolkit, f"{toolkit}/cccl"} <= set(told["includes"].split(";"))
    assert "$ORIGIN/../../nvidia/cu13/lib" in told["CMAKE_INSTALL_RPATH"].split(";")


def test_a_toolkit_without_nvtx_stops_the_build_by_name(kernels: Path) -> None:
    cuda_13(kernels)
    (kernels / "cuda/nvidia/cu13/include/nvtx3/nvtx3.hpp").unlink()
    done = configure(kernels)
    assert done.returncode != 0 and "nvtx3/nvtx3.hpp" in done.stderr


def test_kernels_have_cufile_where_they_need_it(kernels: Path) -> None:
    """No header of the official wheel says so: 2.6's has it not, that of 2.15 has."""
    cuda_13(kernels)
    assert answers(kernels)["USE_CUFILE"] == "OFF"
    toolkit = kernels / "cuda/nvidia/cu13"
    write(toolkit / "include/cufile.h")
    library(kernels / "lib/libtorch_cuda.so", library(toolkit / "lib/libcufile.so.0"))
    (kernels.parent / "ask/build/values").unlink()
    assert answers(kernels)["USE_CUFILE"] == "ON"


def test_cufile_that_the_kernels_have_not_is_refused(kernels: Path) -> None:
    cuda_13(kernels)
    done = configure(kernels, "USE_CUFILE=1")
    assert done.returncode != 0 and "USE_CUFILE=1" in done.stderr


@pytest.mark.parametrize(
    ("registry", "options", "known"),
    [
        ("__pybind11_internals_v5_gcc_libstdcpp_cxxabi1011__", "-fabi-version=11", "ON"),
        ("__pybind11_internals_v12_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__", "", "ON"),  # as 2.15 names it
        ("__pybind11_internals_v12_msvc_md_mscver19__", "", "OFF"),
        ("nothing", "", "OFF"),
    ],
)
def test_bindings_are_compiled_for_the_registry_of_the_core(
    tmp_path: Path, registry: str, options: str, known: str
) -> None:
    (tmp_path / "libtorch_python.so").write_bytes(b"\0" + registry.encode() + b"\0")
    script = tmp_path / "ask.cmake"
    script.write_text(
        f'include("{CMAKE}/PybindABI.cmake")\n'
        f'torch_cuda_pybind_abi(options known "{tmp_path}/libtorch_python.so")\n'
        'message(STATUS "<${options}|${known}>")\n'
    )
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True, check=True)
    assert f"<{options}|{known}>" in done.stdout
