"""InstalledTorch.cmake on a folder like an installed torch: files of the right names, which is all that it asks for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import wrapped_cmake
from wrapped_cmake import WrappedCMake, WrappedCMakeError

from tests.support.files import write_files

PROJECT = f"""
cmake_minimum_required(VERSION 3.20)
project(tiny LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH "{Path(wrapped_cmake.__file__).parent / "cmake"}")
include(InstalledTorch)
set(FOUND "${{CORE_VERSION}} ${{CORE_CXX_STANDARD}} ${{CORE_HEADERS}}" CACHE INTERNAL "")
set(ABI "${{CORE_CXX11_ABI}}:${{CORE_DEFINITIONS}}" CACHE INTERNAL "")
get_target_property(library core::torch_cpu IMPORTED_LOCATION)
set(LIBRARY "${{library}}" CACHE INTERNAL "")
"""


def make_torch(prefix: Path) -> Path:
    """A prefix with the files of a torch package that are looked for."""
    package = prefix / "torch"
    names = ("version.py", "include/ATen/Config.h", "share/cmake/Torch/TorchConfig.cmake")
    write_files(package, dict.fromkeys(names, ""))
    (package / "lib").mkdir()
    for library in ("c10", "torch_cpu", "torch_python"):
        (package / "lib" / f"lib{library}.so").touch()
    (package / "version.py").write_text("__version__ = '2.6.0+here'\n")
    (package / "share/cmake/Torch/TorchConfig.cmake").write_text(
        "set_property(TARGET torch PROPERTY CXX_STANDARD 17)\n"
    )
    return prefix


def test_a_torch_that_moved_is_looked_for_again(source: Path, tmp_path: Path) -> None:
    """A build folder outlives the virtual environment that its torch was in."""
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    for place in (make_torch(tmp_path / "old"), tmp_path / "new"):
        if place.name == "new":
            shutil.move(tmp_path / "old", place)
        project.configure({"TORCH_PREFIX": str(place)})
        found = project.cache()
        assert found["FOUND"] == f"2.6.0+here 17 {place}/torch/include"
        assert found["LIBRARY"] == f"{place}/torch/lib/libtorch_cpu.so"


def test_another_torch_in_the_same_folder_is_read_before_anything_is_compiled(source: Path, tmp_path: Path) -> None:
    """Objects were compiled with the C++ standard and the ABI of the one before."""
    prefix = make_torch(tmp_path / "site")
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    for release in ("2.6.0", "2.13.0"):
        (prefix / "torch/version.py").write_text(f"__version__ = '{release}'\n")
        project.configure({"TORCH_PREFIX": str(prefix)})
        project.build(["all"])
        assert str(project.cache()["FOUND"]).split()[0] == release


@pytest.mark.parametrize(
    ("line", "abi"),
    [
        ('set(FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")', "0:_GLIBCXX_USE_CXX11_ABI=0"),  # up to 2.6
        ('set(FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")', "1:_GLIBCXX_USE_CXX11_ABI=1"),
        ("", "1:"),  # 2.15 does not say it any more
    ],
)
def test_a_torch_has_the_abi_that_it_says_or_the_new_one(source: Path, tmp_path: Path, line: str, abi: str) -> None:
    prefix = make_torch(tmp_path / "torch")
    with (prefix / "torch/share/cmake/Torch/TorchConfig.cmake").open("a") as config:
        config.write(f"{line}\n")
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    project.configure({"TORCH_PREFIX": str(prefix)})
    assert project.cache()["ABI"] == abi


def test_what_a_torch_lacks_is_named(source: Path, tmp_path: Path) -> None:
    project = WrappedCMake(source, tmp_path / "build", environ=os.environ)
    prefix = make_torch(tmp_path / "torch")
    (prefix / "torch/lib/libtorch_python.so").unlink()
    with pytest.raises(WrappedCMakeError, match=r"libtorch_python\.so"):
        project.configure({"TORCH_PREFIX": str(prefix)})
