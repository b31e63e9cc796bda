"""Libraries beside the CUDA toolkit: absent, too old, of another CUDA is told in one line, before a compile."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from tests.support.files import write_files

CMAKE = find_project() / "third_device/torch_cuda/cmake"
#: Option -> where it is looked for, header with its version, that header's lines, the library
LIBRARIES = {
    "CUDNN": ("CUDNN_ROOT", "cudnn_version.h", ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"), "cudnn"),
    "NCCL": ("NCCL_ROOT", "nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"), "nccl"),
    "MAGMA": (
        "MAGMA_HOME",
        "magma_types.h",
        ("MAGMA_VERSION_MAJOR", "MAGMA_VERSION_MINOR", "MAGMA_VERSION_MICRO"),
        "magma",
    ),
    "CUSPARSELT": (
        "CUSPARSELT_ROOT",
        "cusparseLt.h",
        ("CUSPARSELT_VER_MAJOR", "CUSPARSELT_VER_MINOR", "CUSPARSELT_VER_PATCH"),
        "cusparseLt",
    ),
    "CUDSS": ("CUDSS_ROOT", "cudss.h", ("CUDSS_VERSION_MAJOR", "CUDSS_VERSION_MINOR", "CUDSS_VERSION_PATCH"), "cudss"),
    "CUFILE": ("CUFILE_ROOT", "cufile.h", (), "cufile"),
    "UCC": ("UCC_HOME", "ucc/api/ucc_version.h", ("UCC_API_MAJOR", "UCC_API_MINOR"), "ucc"),
}
HEADERS = {"CUDNN": "cudnn.h", "MAGMA": "magma_v2.h", "UCC": "ucc/api/ucc.h"}
VERSIONED = [name for name, (_, _, numbers, _) in LIBRARIES.items() if numbers]

pytestmark = pytest.mark.tools("cmake", "cc")


def shared(path: Path, soname: str, text: str = "", needs: Iterable[Path] = (), more: str = "") -> Path:
    """A shared library of that name, which needs others, with a text and more in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-nostdlib", "-x", "c", "-", "-o", str(path), f"-Wl,-soname,{soname},--no-as-needed"]
    source = f'const char text_of_it[] = "{text}"; {more}'
    subprocess.run([*command, "-x", "none", *map(str, needs)], input=source, text=True, check=True)
    return path


def install(place: Path, name: str, version: str = "9.9.9", needs: Iterable[Path] = (), text: str = "") -> None:
    """Headers and library of one of `LIBRARIES`, below its own prefix."""
    _, header, numbers, library = LIBRARIES[name]
    lines = "".join(f"#define {each} {part}\n" for each, part in zip(numbers, version.split("."), strict=False))
    write_files(place / "include", dict.fromkeys((header, HEADERS.get(name, header)), lines))
    shared(place / f"lib/lib{library}.so", f"lib{library}.so.1", text, needs)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA 12 toolkit, one of CUDA 11, and every library made for the first."""
    place = tmp_path_factory.mktemp("libraries")
    for major in ("11", "12"):
        shared(place / f"cuda{major}/lib/libcublas.so.{major}", f"libcublas.so.{major}")
    for name in LIBRARIES:
        install(place / name, name, needs=[place / "cuda12/lib/libcublas.so.12"])
    for name in ("first", "last"):
        shared(place / f"lib{name}.so", f"lib{name}.so.1")
    for part in ("ucp", "ucs"):
        shared(place / f"UCC/lib/lib{part}.so", f"lib{part}.so.0")
    return place


@pytest.fixture
def world(complete: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copytree(complete, tmp_path / "world"))


def found(world: Path, **switches: str) -> tuple[dict[str, str], str]:
    """(option -> "ON 9.9.9" or why it is off, the error). What is not named is off."""
    settings = {
        "PYTORCH_SOURCE_DIR": world,
        "TORCH_VERSION": "2.6.0",
        "USE_DISTRIBUTED": "1",
        "CUDAToolkit_VERSION": "12.4",
        "CUDAToolkit_VERSION_MAJOR": "12",
        "CUDA_cublas_LIBRARY": world / "cuda12/lib/libcublas.so.12",
        "Python_EXECUTABLE": sys.executable,
        "CMAKE_FIND_LIBRARY_PREFIXES": "lib",
        "CMAKE_FIND_LIBRARY_SUFFIXES": ".so",
        **{f"USE_{name}": "0" for name in LIBRARIES},
        **{prefix: world / name for name, (prefix, *_) in LIBRARIES.items()},
        **{name if name in ("USE_DISTRIBUTED", "UCX_HOME") else f"USE_{name}": said for name, said in switches.items()},
    }
    functions = (CMAKE / "Dependencies.cmake").read_text().partition("find_path(FMT_INCLUDE_DIR")[0]
    script = world / "ask.cmake"
    script.write_text(
        "".join(f'set({name} "{value}")\n' for name, value in settings.items())
        + functions
        + f'include("{CMAKE}/toolkit/cuda.cmake")\ninclude("{CMAKE}/Beside.cmake")\n'
        + "".join(f'message("{name}=${{USE_{name}}} ${{{name}_VERSION}}${{{name}_WHY}}")\n' for name in LIBRARIES)
    )
    done = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True)
    said = dict(line.split("=", 1) for line in done.stderr.splitlines() if line.split("=")[0] in LIBRARIES)
    begin = done.stderr.partition("CMake Error at ")[2].partition("Call Stack")[0]
    return said, " ".join(begin.split("\n", 1)[-1].split()) if begin else ""


@pytest.mark.parametrize("asked", ["1", "ON", "auto"])
def test_what_is_there_is_taken_with_its_version(world: Path, asked: str) -> None:
    said, error = found(world, **dict.fromkeys(LIBRARIES, asked))
    versions = {"CUFILE": "", "UCC": "9.9"}
    assert error == ""
    assert said == {name: f"ON {versions.get(name, '9.9.9')}" for name in LIBRARIES}


def test_what_is_turned_off_is_not_looked_for(world: Path) -> None:
    for name in LIBRARIES:
        shutil.rmtree(world / name)
    assert found(world) == ({name: f"OFF USE_{name}=0" for name in LIBRARIES}, "")


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_is_asked_for_and_absent_stops_with_one_line(world: Path, name: str) -> None:
    shutil.rmtree(world / name)
    prefix, _, _, library = LIBRARIES[name]
    _, error = found(world, **{name: "1"})
    assert f"or lib{library} not found ({prefix} names its prefix); next: " in error
    assert error.endswith(f"or set USE_{name}=0")


@pytest.mark.parametrize("name", VERSIONED)
def test_one_that_is_too_old_stops_with_one_line(world: Path, name: str) -> None:
    install(world / name, name, "0.1.0")
    _, error = found(world, **{name: "1"})
    assert "has version 0.1" in error and "PyTorch 2.6.0 takes" in error and error.endswith(f"or set USE_{name}=0")


@pytest.mark.parametrize("name", LIBRARIES)
def test_one_for_another_cuda_stops_with_one_line(world: Path, name: str) -> None:
    install(
        world / name, name, needs=[world / "libfirst.so", world / "cuda11/lib/libcublas.so.11", world / "liblast.so"]
    )
    _, error = found(world, **{name: "1"})
    assert "needs libcublas.so.11, CUDA 12.4 has libcublas.so.12; next: " in error


def test_one_that_needs_nothing_of_the_toolkit_says_its_cuda_itself(world: Path) -> None:
    install(world / "NCCL", "NCCL", text="NCCL version 2.21.5+cuda11.0")
    assert "is made for CUDA 11.0, the toolkit is CUDA 12.4" in found(world, NCCL="1")[1]
    install(world / "NCCL", "NCCL", text="NCCL version 2.22.3+cuda12.1")
    assert found(world, NCCL="1")[1] == ""
    asked = "unsigned long cudnnGetCudartVersion(void) { return 11080; }"
    shared(world / "CUDNN/lib/libcudnn.so", "libcudnn.so.9", more=asked)
    assert "is made for CUDA 11.8, the toolkit is CUDA 12.4" in found(world, CUDNN="1")[1]


def test_what_is_not_asked_for_by_name_is_left_off_with_the_reason(world: Path) -> None:
    shutil.rmtree(world / "MAGMA")
    install(world / "CUSPARSELT", "CUSPARSELT", "0.2.0")
    said, error = found(world, MAGMA="auto", CUSPARSELT="AUTO")
    assert error == ""
    assert said["MAGMA"] == "OFF magma_v2.h or libmagma not found (MAGMA_HOME names its prefix)"
    assert said["CUSPARSELT"].endswith("has version 0.2.0, PyTorch 2.6.0 takes 0.4 or newer")


def test_ucc_needs_ucx_and_torch_distributed(world: Path) -> None:
    (world / "UCC/lib/libucp.so").unlink()
    assert "libucp of UCX not found (UCX_HOME names its prefix)" in found(world, UCC="1")[1]
    assert "it is a backend of torch.distributed" in found(world, UCC="1", USE_DISTRIBUTED="0")[1]


def test_a_wheel_of_nvidias_has_no_name_for_the_linker(world: Path) -> None:
    (world / "CUSPARSELT/lib/libcusparseLt.so").rename(world / "CUSPARSELT/lib/libcusparseLt.so.0")
    assert found(world, CUSPARSELT="1")[0]["CUSPARSELT"] == "ON 9.9.9"


def test_a_definition_of_one_source_is_added_and_replaces_none() -> None:
    # Module.cpp had USE_CUSPARSELT, and lost it where CUDA_ARCH_FLAGS was set: torch._C._cusparselt was gone.
    files = sorted(CMAKE.rglob("*.cmake"))
    assert files
    for file in files:
        text = file.read_text()
        assert not re.search(r"set_source_files_properties\([^)]*COMPILE_DEFINITIONS", text), (
            f"{file.name}: set_property(SOURCE … APPEND PROPERTY COMPILE_DEFINITIONS …) keeps what others have set"
        )
