"""A torch_cuda wheel as two: the libraries once for all Pythons, the bindings per Python. Real pip, real libraries."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.build.wheel_split import split_wheel
from decouple.index import site
from decouple.index.wheel import read_wheel
from tests.unit.index.wheels import make_wheel

needs_cc = pytest.mark.tools("cc")
VERSION = "2.6.0+cu124"
HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"
NVIDIA = 'nvidia-cublas-cu12==12.4.5.8 ; platform_system == "Windows"'  # asked for, but not here


def shared_library(folder: Path, name: str, *needs: Path, text: str = "") -> Path:
    """A real shared library that needs others."""
    target = folder / name
    command = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-soname,{name}", "-x", "c", "-", "-o", str(target)]
    subprocess.run([*command, "-x", "none", *map(str, needs)], input=text, text=True, check=True)
    return target


def whole(
    folder: Path,
    python: str,
    kernels: str = "int kernels(void) { return 1; }",
    word: str = "cuda",
    version: str = VERSION,
) -> Path:
    """A torch_cuda wheel of one Python, or that of another ``word``, with libraries that are real."""
    folder.mkdir(parents=True, exist_ok=True)
    torch_python = shared_library(folder, "libtorch_python.so")
    library = shared_library(folder, f"libtorch_{word}.so", text=kernels)
    bindings = shared_library(folder, f"libtorch_python_{word}.so", torch_python, library)
    package = f"torch_{word}"
    preload = f"[torch.backends.preload]\n{word} = {package}:x\n"
    return make_wheel(
        folder,
        f"torch-{word}",
        version,
        requires=("torch==2.6.0+decoupled", NVIDIA),
        cuda="12.4" if word == "cuda" else None,
        tag=f"{python}-{python}-linux_x86_64",
        extra_members={
            f"{package}/_CUDAC.{python}.so": python.encode(),
            f"{package}/lib/libtorch_{word}.so": library.read_bytes(),
            f"{package}/lib/libtorch_python_{word}.so": bindings.read_bytes(),
            f"{package}/include/ATen/cuda/CUDAContext.h": b"#pragma once\n",
            f"{package}-{version}.dist-info/entry_points.txt": preload.encode(),
        },
    )


def members(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@needs_cc
def test_what_needs_a_python_stays_with_it_and_the_rest_is_one_file_for_all(tmp_path: Path) -> None:
    first = split_wheel(whole(tmp_path / "313", "cp313"), tmp_path / "out")
    assert first.libraries.name == f"torch_cuda_libraries-{VERSION}-py3-none-linux_x86_64.whl"
    assert members(first.libraries) == {
        "torch_cuda/lib/libtorch_cuda.so",
        "torch_cuda/include/ATen/cuda/CUDAContext.h",
    }
    assert members(first.bindings) == {
        "torch_cuda/__init__.py",
        "torch_cuda/_CUDAC.cp313.so",
        "torch_cuda/lib/libtorch_python_cuda.so",
    }
    libraries, bindings = read_wheel(first.libraries), read_wheel(first.bindings)  # RECORD, names and manifests hold
    assert bindings.requires == ("torch==2.6.0+decoupled", f"torch-cuda-libraries=={VERSION}")
    assert libraries.requires == (NVIDIA,)  # the core is the bindings' business
    assert libraries.manifest.cuda == "12.4"

    before = first.libraries.read_bytes()
    second = split_wheel(whole(tmp_path / "39", "cp39"), tmp_path / "out")
    assert second.libraries == first.libraries and first.libraries.read_bytes() == before
    assert second.bindings.name == f"torch_cuda-{VERSION}-cp39-cp39-linux_x86_64.whl"


@needs_cc
def test_libraries_that_differ_are_not_taken_for_the_same(tmp_path: Path) -> None:
    first = split_wheel(whole(tmp_path / "313", "cp313"), tmp_path / "out")
    before = first.libraries.read_bytes()
    with pytest.raises(UsageError, match="other libraries"):
        split_wheel(whole(tmp_path / "39", "cp39", "int kernels(void) { return 2; }"), tmp_path / "out")
    assert first.libraries.read_bytes() == before
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".json", ".json", ".whl", ".whl"]


def test_a_wheel_is_not_replaced_by_its_own_half(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch-cuda", VERSION, cuda="12.4")
    (tmp_path / "other").mkdir()
    before = wheel.read_bytes()
    with pytest.raises(UsageError, match="would replace it"):
        split_wheel(wheel, tmp_path / "other/..")  # the folder by another name
    assert wheel.read_bytes() == before


def test_other_wheels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a wheel of torch"):
        split_wheel(make_wheel(tmp_path, "torch", "2.6.0+decoupled"), tmp_path / "out")
    with pytest.raises(UsageError, match="no library"):
        split_wheel(make_wheel(tmp_path, "torch-cuda", VERSION, cuda="12.4"), tmp_path / "out")
    stranger = make_wheel(tmp_path / "s", "torch-cuda", VERSION, manifest=b"{}")
    with pytest.raises(DecoupleError, match="schema"):
        split_wheel(stranger, tmp_path / "out")


@needs_cc
def test_pip_takes_both_from_a_folder_and_refuses_one_without_the_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    halves = split_wheel(whole(tmp_path / "whole", HERE), out)
    make_wheel(out, "torch", "2.6.0+decoupled")
    python = fresh(tmp_path / "env")

    def pip(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pip", "--python", str(python), *words]
        return subprocess.run(command, capture_output=True, text=True)

    install = ("install", "--no-index", "--find-links", str(out))
    done = pip(*install, "torch-cuda")
    assert done.returncode == 0, done.stderr
    installed = next((tmp_path / "env").glob("lib/python*/site-packages/torch_cuda/lib"))
    assert {path.name for path in installed.iterdir()} == {"libtorch_cuda.so", "libtorch_python_cuda.so"}
    assert pip("check").returncode == 0

    assert pip("uninstall", "-y", "torch-cuda-libraries").returncode == 0
    broken = pip("check")
    assert broken.returncode and "torch-cuda 2.6.0+cu124 requires torch-cuda-libraries" in broken.stdout

    halves.libraries.unlink()
    refused = pip(*install, "--force-reinstall", "torch-cuda")
    assert refused.returncode and f"torch-cuda-libraries=={VERSION}" in refused.stderr


@needs_cc
def test_pip_takes_a_wheel_for_amd_in_halves_from_its_own_index(tmp_path: Path) -> None:
    dist, version = tmp_path / "dist", "2.6.0+rocm6.4"
    halves = split_wheel(whole(tmp_path / "whole", HERE, word="hip", version=version), dist)
    assert halves.libraries.name == f"torch_hip_libraries-{version}-py3-none-linux_x86_64.whl"
    assert members(halves.libraries) == {"torch_hip/lib/libtorch_hip.so", "torch_hip/include/ATen/cuda/CUDAContext.h"}
    make_wheel(dist, "torch", "2.6.0+decoupled")
    site.build_site(dist, tmp_path / "site")
    python = fresh(tmp_path / "env")
    index = (tmp_path / "site/rocm64/simple").as_uri()
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--index-url", index, "torch-hip"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    package = next((tmp_path / "env").glob("lib/python*/site-packages/torch_hip"))
    assert {path.name for path in (package / "lib").iterdir()} == {"libtorch_hip.so", "libtorch_python_hip.so"}


def fresh(folder: Path) -> Path:
    """The interpreter of a new virtual environment without pip."""
    venv.create(folder, with_pip=False)
    return folder / "bin/python"
