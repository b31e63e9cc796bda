"""CMake's ``find_package(Torch)`` with torch_cuda beside torch, on a small package that is laid out as torch's is.

That a real torch's configuration works so is shown by the C++ program of ``extensions.toml``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from torch_cuda_build import backend

from tests.support.files import write_files

from .conftest import PROJECT

pytestmark = pytest.mark.tools("cmake", "ninja")

CONFIGURED = {
    "USE_NCCL": "ON",
    "CUDAToolkit_VERSION_MAJOR": "12",
    "CUDAToolkit_VERSION_MINOR": "4",
    "TORCH_VERSION": "2.6.0",
    "CORE_VERSION": "2.6.0+decoupled",
    "CORE_KIND": "built",
}
TORCH = """
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(TORCH_INCLUDE_DIRS "${TORCH_INSTALL_PREFIX}/include")
find_package(Caffe2 REQUIRED PATHS "${CMAKE_CURRENT_LIST_DIR}/../Caffe2" NO_DEFAULT_PATH)
"""
VERSION = 'set(PACKAGE_VERSION "2.6.0")\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n'
CAFFE2 = 'include("${CMAKE_CURRENT_LIST_DIR}/Caffe2Targets.cmake")\n'
TARGETS = """
if(TARGET torch) # CMake's own guard, which asks for each target
  return()
endif()
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
foreach(name c10 torch_cpu torch)
  add_library(${name} SHARED IMPORTED)
  set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include")
endforeach()
add_library(torch_cpu_library INTERFACE IMPORTED)
if(INSIDE)
  add_library(${INSIDE} SHARED IMPORTED)
endif()
set_property(TARGET torch PROPERTY INTERFACE_LINK_LIBRARIES torch_cpu_library)
file(GLOB configurations "${CMAKE_CURRENT_LIST_DIR}/Caffe2Targets-*.cmake") # as CMake writes it
foreach(configuration IN LISTS configurations)
  include("${configuration}")
endforeach()
"""
CUDA = """
if(NO_TOOLKIT)
  set(CAFFE2_USE_CUDA OFF)
  return()
endif()
add_library(torch::cudart INTERFACE IMPORTED)
"""
USER = """
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES NONE)
find_package(Torch REQUIRED)
get_target_property(linked torch INTERFACE_LINK_LIBRARIES)
if(TARGET torch_cuda_library)
  get_target_property(where torch_cuda IMPORTED_LOCATION)
  get_target_property(needed torch_cuda INTERFACE_LINK_LIBRARIES)
endif()
message(STATUS "linked=${linked} where=${where} needed=${needed} headers=${TORCH_INCLUDE_DIRS}")
"""

AGAIN = """
find_package(Torch REQUIRED)
get_target_property(linked torch INTERFACE_LINK_LIBRARIES)
get_target_property(seen torch_cuda_library INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "again=${linked} seen=${seen}")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with both packages' CMake files, and a project that uses torch."""
    folder = tmp_path / "site"
    files = {
        "Torch/TorchConfig.cmake": TORCH,
        "Torch/TorchConfigVersion.cmake": VERSION,
        "Caffe2/Caffe2Config.cmake": CAFFE2,
        "Caffe2/Caffe2Targets.cmake": TARGETS,
        "Caffe2/public/cuda.cmake": CUDA,
    }
    write_files(folder / "torch/share/cmake", files)
    write_files(tmp_path, {"user/CMakeLists.txt": USER})
    shutil.copy(PROJECT / "cmake" / Path(backend.IN_TORCH).name, folder / backend.IN_TORCH)
    ours = folder / "torch_cuda/share/cmake/TorchCUDA/InTorch.cmake"
    ours.parent.mkdir(parents=True)
    for configured in (ours, ours.with_name("OpenedByName.cmake")):
        text = (PROJECT / f"cmake/{configured.name}.in").read_text()
        for name, value in CONFIGURED.items():
            text = text.replace(f"@{name}@", value)
        configured.write_text(text)
    (folder / "torch/__init__.py").write_text("from torch._decoupled import preload\n")
    return folder


def configure(site: Path, *options: str, **environment: str) -> str:
    """What CMake says of a project that finds torch in *site*."""
    user = site.parent / "user"
    command = ["cmake", "-G", "Ninja", "-S", str(user), "-B", str(user / "build"), f"-DCMAKE_PREFIX_PATH={site}/torch"]
    done = subprocess.run([*command, *options], env={**os.environ, **environment}, capture_output=True, text=True)
    return " ".join((done.stdout + done.stderr).split())


def test_who_links_torch_links_cuda_and_sees_its_headers(site: Path) -> None:
    said = configure(site)
    assert "linked=torch_cpu_library;torch_cuda_library" in said
    assert f"where={site}/torch_cuda/lib/libtorch_cuda.so" in said
    assert "needed=torch::cudart;c10_cuda;torch_cpu_library" in said
    assert f"headers={site}/torch/include;{site}/torch_cuda/include" in said


@pytest.mark.parametrize("ours", ["nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cu12/lib/libnvrtc.so.12", ""])
def test_a_program_needs_the_libraries_that_aten_opens_by_name(site: Path, ours: str) -> None:
    """A program without Python: jiterated operators and, over the official kernels, torch.linalg failed at dlopen."""
    toolkit = site.parent / "toolkit/libnvrtc.so"
    patched = site / "torch_cuda/lib/libtorch_cuda_patched.so"
    for file in (toolkit, patched, *([site / ours, site / "nvidia/cu11/lib/libnvrtc.so.11.2"] if ours else [])):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    with (site.parent / "user/CMakeLists.txt").open("a") as project:
        project.write("get_target_property(links torch_cuda_library INTERFACE_LINK_LIBRARIES)\n")
        project.write('message(STATUS "links=${links}")\n')
    said = configure(site, f"-DCUDA_nvrtc_LIBRARY={toolkit}")
    nvrtc = f"{site}/torch_cuda/../{ours}" if ours else str(toolkit)
    for library in (patched, nvrtc):
        assert f'-Wl,--no-as-needed,"{library}" -Wl,--as-needed;{library};' in said
    assert said.index("$<TARGET_FILE:torch_cuda>") < said.index(str(patched)) and said.count("libnvrtc") == 2


def test_who_links_torch_sees_our_headers_when_it_is_found_again(site: Path) -> None:
    """As a package does that depends on torch. The variable loses them then, as docs/wheels.md says."""
    with (site.parent / "user/CMakeLists.txt").open("a") as project:
        project.write(AGAIN)
    seen = f"{site}/torch_cuda/include;{site}/torch/include"
    assert f"again=torch_cpu_library;torch_cuda_library seen={seen}" in configure(site)


@pytest.mark.parametrize("without", ["the package", "torch_cuda", "torch_hip"])
def test_a_torch_without_us_or_with_a_vendors_half_of_its_own_is_left_alone(site: Path, without: str) -> None:
    if without == "the package":
        shutil.rmtree(site / "torch_cuda")
    options = [f"-DINSIDE={without}"] if without in ("torch_cuda", "torch_hip") else []
    assert "linked=torch_cpu_library where=" in configure(site, *options)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("torch/share/cmake/Torch/TorchConfigVersion.cmake", VERSION.replace("2.6.0", "2.7.1")),
        ("torch/__init__.py", "import sys\n"),
    ],
)
def test_a_torch_that_took_the_place_of_ours_is_not_linked_with_us(site: Path, file: str, text: str) -> None:
    """`pip install -U torch` leaves torch_cuda, which Python does not load then: C++ linked it to the other torch."""
    (site / file).write_text(text)
    said = configure(site)
    assert "linked=torch_cpu_library where=" in said
    assert "it was built for torch 2.6.0+decoupled" in said and "pip uninstall torch-cuda" in said


@pytest.mark.parametrize(("value", "linked"), [("0", False), ("OFF", False), ("", False), ("1", True)])
def test_the_variable_that_leaves_cuda_out_of_python_leaves_it_out_here(site: Path, value: str, linked: bool) -> None:
    """With OFF, for which Python leaves CUDA out, a project stopped without nvcc."""
    said = configure(site, TORCH_DEVICE_BACKEND_AUTOLOAD=value)
    assert ("linked=torch_cpu_library;torch_cuda_library" in said) is linked, said


def test_without_a_toolkit_one_sentence_says_what_to_set(site: Path) -> None:
    said = configure(site, "-DNO_TOOLKIT=ON")
    assert (
        "torch_cuda is installed beside torch, and no CUDA toolkit is found. Put nvcc of CUDA 12.4 on the PATH" in said
    )


@pytest.mark.parametrize(("built_for", "found"), [("2.6.0", True), ("2.5.1", False)])
def test_torch_cuda_asked_for_by_name_beside_another_torch(site: Path, built_for: str, found: bool) -> None:
    """`pip install -U torch` leaves it: its libraries were linked to the other torch."""
    text = (PROJECT / "cmake/TorchCUDAConfig.cmake.in").read_text().replace("@TORCH_VERSION@", built_for)
    (site / "torch_cuda/share/cmake/TorchCUDA/TorchCUDAConfig.cmake").write_text(text)
    (site / "torch_cuda/lib").mkdir()
    for name in ("c10_cuda", "torch_cuda", "torch_python_cuda"):
        (site / f"torch_cuda/lib/lib{name}.so").touch()
    (site.parent / "modules").mkdir()
    (site.parent / "modules/FindCUDAToolkit.cmake").write_text("set(CUDAToolkit_FOUND TRUE)\n")
    with (site.parent / "user/CMakeLists.txt").open("a") as file:
        file.write('find_package(TorchCUDA PATHS "${SITE}/torch_cuda/share/cmake")\nmessage("is=${TorchCUDA_FOUND}")\n')
    said = configure(site, f"-DSITE={site}", f"-DCMAKE_MODULE_PATH={site.parent}/modules")
    assert ("is=1" in said) is found
    assert ("and torch 2.6.0 is found; install that torch" in said) is not found
