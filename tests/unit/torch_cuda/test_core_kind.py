"""Which kind of core stage 2 takes an installed torch for, by real CMake on a folder that is laid out as torch's is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.files import write_files

from .conftest import PROJECT

pytestmark = pytest.mark.tools("cmake", "c++")

STAGE_2 = f"""
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
set(TORCH_CUDA_CORE auto)
set(PYTORCH_SOURCE_DIR "${{CMAKE_CURRENT_SOURCE_DIR}}")
include("{PROJECT}/cmake/Core.cmake")
message(STATUS "the core is ${{CORE_KIND}}")
"""
CPU = "namespace c10 { enum class DeviceType : char; } namespace at::native { struct DispatchStubImpl { void* get_call_ptr(c10::DeviceType, void*); }; void* DispatchStubImpl::get_call_ptr(c10::DeviceType, void*) { return 0; } }"  # noqa: E501
PATCHED = "from torch._decoupled import preload as _preload\n"


def write_torch(package: Path, text: str) -> None:
    """The files of a torch package that Core.cmake asks for; *text* is its ``__init__.py``."""
    files = {
        "__init__.py": text,
        "version.py": "__version__ = '2.6.0+here'\n",
        "include/ATen/Config.h": "",
        "share/cmake/Torch/TorchConfig.cmake": "set_property(TARGET torch PROPERTY CXX_STANDARD 17)\n",
        "lib/libc10.so": "",
        "lib/libtorch_python.so": "",
        "cpu.cpp": CPU,
    }
    write_files(package, files)
    library = package / "lib/libtorch_cpu.so"
    subprocess.run(["c++", "-shared", "-fPIC", str(package / "cpu.cpp"), "-o", str(library)], check=True)


@pytest.mark.parametrize(
    ("text", "folder", "kind"),
    [
        ("", None, "stock"),
        ("", "_decoupled/__pycache__", "stock"),  # what pip leaves of a patched core that was imported with python -O
        (PATCHED, "_decoupled", "built"),
        (PATCHED, None, "built"),  # in place: the folder lies below third_device
    ],
)
def test_a_core_is_the_patched_one_if_it_loads_us(tmp_path: Path, text: str, folder: str | None, kind: str) -> None:
    write_torch(tmp_path / "prefix/torch", text)
    if folder:
        (tmp_path / "prefix/torch" / folder).mkdir(parents=True)
    (tmp_path / "CMakeLists.txt").write_text(STAGE_2)
    (tmp_path / "version.txt").write_text("2.6.0a0\n")
    names = {"TORCH_CUDA_CORE_PREFIX": tmp_path / "prefix", "Python_EXECUTABLE": sys.executable}
    options = [f"-D{name}={value}" for name, value in names.items()]
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"the core is {kind}\n" in done.stdout, done.stderr


@pytest.mark.tools("ninja")
def test_of_another_core_the_objects_are_other_ones(tmp_path: Path) -> None:
    """Its headers may be older than the objects, behind links of the same names: ninja had nothing to do."""
    (tmp_path / "version.txt").write_text("2.6.0a0\n")
    (tmp_path / "kernel.cpp").write_text("#include <ATen/Config.h>\nconst char* said() { return CORE; }\n")
    (tmp_path / "CMakeLists.txt").write_text(
        f"{STAGE_2}include_directories(${{CORE_INCLUDE_DIR}})\nadd_library(kernels OBJECT kernel.cpp)\n"
    )
    for core in ("first", "second"):
        write_torch(tmp_path / core / "torch", "")
        (tmp_path / core / "torch/include/ATen/Config.h").write_text(f'#define CORE "the {core} core"\n')
        os.utime(tmp_path / core / "torch/include/ATen/Config.h", (0, 0))
        options = [f"-DTORCH_CUDA_CORE_PREFIX={tmp_path / core}", f"-DPython_EXECUTABLE={sys.executable}"]
        subprocess.run(["cmake", "-GNinja", "-S", tmp_path, "-B", tmp_path / "build", *options], check=True)
        subprocess.run(["ninja", "-C", tmp_path / "build"], check=True)
        (made,) = (tmp_path / "build").rglob("kernel.cpp.o")
        assert f"the {core} core".encode() in made.read_bytes()
