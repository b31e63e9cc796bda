"""A made-up vendor on the CUDA key, from `new-device acme --key CUDA` to compiled objects, no shared file touched.

Its compiler driver is g++ by another name, its libraries have other names than NVIDIA's, there is no cuDNN, and its
warps are 64 wide. The torch beside it is made up as well: the files that a configuration reads. Its headers are
NVIDIA's with every name of the runtime changed, which `decouple stages reuse --header` maps for PyTorch's sources.
"""

from __future__ import annotations

import json
import os
import re
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
from tests.support.cuda_headers import require_headers
from tests.support.series import git

PROJECT = find_project()

pytestmark = [
    pytest.mark.real,
    pytest.mark.tools("cmake", "ninja", "c++"),
]

#: As nvcc does, it puts the runtime's header before a source, where the toolkit has one.
DRIVER = """#!/bin/sh
[ "$1" = --version ] && exec c++ --version
[ -e "${0%/bin/*}/include/cuda_runtime.h" ] && set -- -include cuda_runtime.h "$@"
exec c++ -x c++ "$@"
"""
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


@pytest.fixture(scope="module")
def folder(tree: Path) -> Path:
    """The vendor's thin folder, as the template makes it."""
    made = tree / "third_device/torch_acme"
    assert main(["new-device", "acme", "--key", "CUDA", "--into", str(made)]) == 0
    return made


def configure(folder: Path, build: Path, tree: Path, torch: Path, toolkit: Path) -> str:
    """Configure the vendor's stage 2; what CMake said."""
    settings = {
        "ACME_HOME": toolkit,
        "TORCH_CUDA_CORE": "stock",
        "TORCH_CUDA_CORE_PREFIX": torch,
        "Python_EXECUTABLE": sys.executable,
    }
    options = [f"-D{name}={value}" for name, value in settings.items()]
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", str(folder), "-B", str(build), *options], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_made_up_vendor_is_configured_from_its_thin_folder_alone(
    tree: Path, torch: Path, toolkit: Path, folder: Path
) -> None:
    build = tree.parent / "build"
    shared = git(tree, "status", "--porcelain", "--", "third_device/torch_cuda", "third_device/tools")
    assert "CUDNN         off: not of acme's toolkit" in configure(folder, build, tree, torch, toolkit)
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


#: PyTorch's allocator, streams, guards and exceptions, and a source of device code without a kernel of its own.
UNITS = ("/c10/cuda/", "/cuda/detail/IndexUtils.cu")
#: What the runtime's names begin with. Names of files go on with another letter.
RUNTIME = re.compile(r"\bcuda(?=[A-Z])")


@pytest.fixture(scope="module")
def renamed(toolkit: Path) -> Path:
    """The vendor's headers: what NVIDIA's declare, under the vendor's names and its own version."""
    kit = require_headers("12.4", [])
    for include in kit.list_include_folders():
        for path in sorted(include.rglob("*.h*")):
            name = path.relative_to(include)
            if name.parts[0] not in ("cub", "thrust", "cuda", "nv"):
                text = path.read_text(encoding="utf-8", errors="replace")
                write(toolkit / "include" / name, RUNTIME.sub("acme", text))
    return kit.list_include_folders()[0]


def test_its_driver_compiles_pytorchs_sources_by_the_vendors_names(
    tree: Path, torch: Path, toolkit: Path, folder: Path, renamed: Path
) -> None:
    """At most some 20 sources, 8 core-seconds each at worst: minutes on a loaded machine."""
    names = [str(folder / "acme.toml"), "--header", str(folder / "acme_names.h"), "--toolkit", str(renamed)]
    pristine = fetch_source(load_release(PROJECT, "2.6"), "debian").path
    main(["stages", "reuse", "2.6", "--tree", str(pristine), "--names", *names])  # leaves other libraries open
    assert "#define cudaMalloc acmeMalloc\n" in (folder / "acme_names.h").read_text(encoding="utf-8")
    build = tree.parent / "compiled"
    configure(folder, build, tree, torch, toolkit)

    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    chosen = [one for one in commands if any(part in one["file"] for part in UNITS)]
    outputs = [shlex.split(one["command"]) for one in chosen]
    objects = [words[words.index("-o") + 1] for words in outputs]
    jobs = str(len(os.sched_getaffinity(0)))
    done = subprocess.run(["ninja", "-C", str(build), "-k0", "-j", jobs, *objects], capture_output=True, text=True)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if "error:" in line)[:3000]
    print(f"\n{len(objects)} objects by acmecc and c++")
    assert len(objects) >= 12 and {words[0] for words in outputs if words[-1].endswith(".cu")} == {
        str(toolkit / "bin/acmecc")
    }

    asked = subprocess.run(["nm", "-u", *objects], cwd=build, capture_output=True, text=True, check=True).stdout
    assert {"acmeMalloc", "acmeGetDeviceCount", "acmeStreamCreateWithPriority"} <= set(asked.split())
    assert not re.findall(r"\bcuda[A-Z]\w*", asked), "nothing is asked of NVIDIA's runtime"
