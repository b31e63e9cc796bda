"""A made-up vendor on the CUDA key, from `new-device acme --key CUDA` to a configured build, no shared file touched.

Its compiler driver is g++ by another name, its libraries have other names than NVIDIA's, there is no cuDNN, and its
warps are 64 wide. The torch beside it is made up as well: the files that a configuration reads.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from decouple.cli import main
from decouple.device.size import measure_files
from decouple.patch import series_file
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.support.series import git

PROJECT = find_project()
MODULES = PROJECT / "third_device/torch_cuda/cmake"

pytestmark = [
    pytest.mark.real,
    pytest.mark.tools("cmake", "ninja", "c++"),
    pytest.mark.skipif(
        "TOOLKIT_WORD" not in (MODULES / "Libraries.cmake").read_text(encoding="utf-8"),
        reason="the modules of this checkout name their libraries for CUDA alone",
    ),
]

DRIVER = '#!/bin/sh\n[ "$1" = --version ] && exec c++ --version\nexec c++ -x c++ "$@"\n'
#: By its exported name libtorch_cpu tells how many CPU capabilities it was compiled for.
CAPABILITIES = "_ZN2at6native16DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPvS4_S4_"


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def library(path: Path, symbol: str = "it") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["c++", "-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=f"int {symbol};\n", text=True, check=True)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The applied tree with the project's third_device in it."""
    manifest = load_release(PROJECT, "2.6")
    baseline = ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=False)
    source = tmp_path_factory.mktemp("applied") / "src"
    git(source.parent, "clone", "-q", "--shared", "--no-checkout", str(baseline.repo), str(source))
    git(source, "checkout", "-q", "--detach", baseline.commit)
    for name in series_file.read_series(PROJECT / "series" / "2.6").names:
        git(source, "apply", str(PROJECT / "patches" / name))
    home = source / "third_device"
    shutil.copytree(PROJECT / "patches" / "2.6", home / "torch_cuda/torch_patches/2.6")
    shutil.copy(PROJECT / "series" / "2.6", home / "torch_cuda/torch_patches/series")
    for name in ("torch_cuda", "tools"):
        shutil.copytree(PROJECT / "third_device" / name, home / name, dirs_exist_ok=True)
    for header in ("fmt/include/fmt/core.h", "nlohmann/include/nlohmann/json.hpp"):
        write(source / "third_party" / header)
    write(source / "third_party/pybind11/include/pybind11/pybind11.h")
    return source


@pytest.fixture(scope="module")
def torch(tree: Path) -> Path:
    """The prefix of an installed torch 2.6.0 that nobody can import."""
    package = tree.parent / "site/torch"
    write(package / "version.py", "__version__ = '2.6.0'\n")
    config = '-D_GLIBCXX_USE_CXX11_ABI=1")\nset_property(TARGET torch PROPERTY CXX_STANDARD 17)\n'
    write(package / "share/cmake/Torch/TorchConfig.cmake", f'set(TORCH_CXX_FLAGS "{config}')
    for name, symbol in (("c10", "it"), ("torch_cpu", CAPABILITIES), ("torch_python", "it")):
        library(package / f"lib/lib{name}.so", symbol)
    for name in ("ATen/Config.h", "caffe2/it.h", "torch/it.h", "c10/macros/cmake_macros.h"):
        write(package / "include" / name)
    for name in ("Macros.h", "Export.h"):
        shutil.copy(tree / "c10/macros" / name, package / "include/c10/macros")
    return package.parent


@pytest.fixture(scope="module")
def toolkit(tree: Path) -> Path:
    prefix = tree.parent / "acme"
    write(prefix / "bin/acmecc", DRIVER).chmod(0o755)
    write(prefix / "include/acme_runtime.h", "#define ACME_MAJOR 3\n#define ACME_MINOR 1\n")
    for name in ("rt", "rtc", "blas", "fft", "rand", "solver", "sparse"):
        library(prefix / f"lib/libacme{name}.so")
    return prefix


def test_a_made_up_vendor_is_configured_from_its_thin_folder_alone(
    tree: Path, torch: Path, toolkit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, build = tree / "third_device/torch_acme", tree.parent / "build"
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(folder)]) == 0
    shared = git(tree, "status", "--porcelain", "--", "third_device/torch_cuda", "third_device/tools")
    settings = {
        "ACME_HOME": toolkit,
        "PYTORCH_SOURCE_DIR": tree,
        "TORCH_CUDA_CORE": "stock",
        "TORCH_CUDA_CORE_PREFIX": torch,
        "Python_EXECUTABLE": sys.executable,
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", str(folder), "-B", str(build), *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "CUDNN         off: not of acme's toolkit" in done.stdout
    assert shared == git(tree, "status", "--porcelain", "--", "third_device/torch_cuda", "third_device/tools")

    ninja = (build / "build.ninja").read_text(encoding="utf-8")
    for name in ("c10", "torch", "torch_python"):
        assert f"lib{name}_acme.so" in ninja
        assert f"lib{name}_cuda.so" not in ninja
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    kernels = [one for one in commands if one["file"].endswith(".cu")]
    assert len(kernels) > 200
    assert {shlex.split(one["command"])[0] for one in kernels} == {str(toolkit / "bin/acmecc")}
    assert sum(size.lines for size in measure_files(folder)) < 200, "a vendor's lines on the CUDA key"

    for language in (kernels[0], next(one for one in commands if one["file"].endswith("CUDAHooks.cpp"))):
        words = shlex.split(language["command"])
        ask = [word for word in words[: words.index("-o")] if word != "-c"]
        told = subprocess.run(
            [*ask, "-E", "-P", "-x", "c++", "-"],
            input="#include <c10/macros/Macros.h>\nint width = C10_WARP_SIZE;\n",
            cwd=language["directory"],
            capture_output=True,
            text=True,
        )
        assert told.stdout.splitlines()[-1:] == ["int width = 64;"], told.stderr
