"""The package ``build`` on real things: upstream's CMake helper, trixie's prebuilt torch, a real nvcc."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_cache, find_project
from decouple.build import probe, root_description, rootfs, toolchain
from decouple.build.environment import Places, RootEnvironment
from decouple.build.settings import make_variables as variables_for
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.verify import audit, checks, parity
from decouple.verify.venvs import Workplace

sys.path.insert(0, str(Path(__file__).parents[2] / "third_device" / "tools"))
from wrapped_cmake import WrappedCMake, WrappedCMakeError

from tests.support.tools import require_tool

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(tiny C)
option(USE_SOMETHING "" OFF)
if(NOT USE_SOMETHING)
  message(FATAL_ERROR "USE_SOMETHING is off")
endif()
add_library(tiny SHARED tiny.c)
install(TARGETS tiny LIBRARY DESTINATION lib)
"""


@pytest.fixture(scope="module")
def upstream() -> Path:
    return fetch_source(load_release(find_project(), "2.6"), "auto").path


@pytest.fixture
def project(tmp_path: Path, upstream: Path) -> Iterator[WrappedCMake]:
    """A project configured through the helper of the real 2.6.0 tree (which needs setuptools' distutils)."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "source" / "tiny.c").write_text("int tiny(void) { return 1; }\n")
    with patch.dict(os.environ):  # upstream's helper may set variables while it is imported
        yield WrappedCMake(
            tmp_path / "source",
            tmp_path / "build",
            tree=upstream,
            install_prefix=tmp_path / "prefix",
            environ={**os.environ, "USE_SOMETHING": "1", "WRAPPED_CMAKE_LAUNCHER": "none"},
        )


def test_configure_and_build_with_upstreams_helper(project: WrappedCMake) -> None:
    assert project.configure()
    assert not project.configure()  # the same again: nothing to do
    assert project.cache()["USE_SOMETHING"]
    assert project.build().edges == 3
    assert (project.build_dir.parent / "prefix" / "lib" / "libtiny.so").exists()
    assert (project.build_dir / "wrapped_cmake.json").exists()
    assert (
        "pool link"
        in (project.build_dir / "build.ninja").read_text()
        + (project.build_dir / "CMakeFiles" / "rules.ninja").read_text()
    )
    assert project.configure({"CMAKE_BUILD_TYPE": "Debug"})  # other definitions: configured again


def test_cmakes_own_error_is_told(project: WrappedCMake) -> None:
    with pytest.raises(WrappedCMakeError, match=r"CMakeLists\.txt:6.*USE_SOMETHING is off"):
        project.configure({"USE_SOMETHING": "0"})


def test_a_folder_that_is_no_pytorch_tree(tmp_path: Path) -> None:
    with pytest.raises(WrappedCMakeError, match=r"not a PyTorch source tree"):
        WrappedCMake(tmp_path, tmp_path / "build", environ={**os.environ, "WRAPPED_CMAKE_TREE": str(tmp_path)})


def made_root(*layers: str) -> rootfs.Root:
    """The Debian root in the cache, when it has these layers; making them here would take gigabytes."""
    shipped = root_description.load_description()
    folder = rootfs.choose_folder(find_cache(), shipped)
    if not rootfs._is_complete(rootfs._read_done(folder), [shipped.find_layer(name) for name in layers]):
        pytest.skip(f"{folder} has not the layers {', '.join(layers)}; `decouple verify 2.6 --core stock` makes them")
    return rootfs.Root(shipped, folder, layers)


def test_trixies_cpu_build_is_clean_and_its_cuda_build_is_not() -> None:
    root = made_root("core", "stock", "monolith")
    stock = audit.list_libraries(root.tree / "opt/stock")
    assert audit.audit_core(stock).faults == ()
    assert audit.audit_core(stock).symbols > 90_000
    monolith = audit.list_libraries(root.tree / "opt/monolith")
    faults = audit.audit_core(monolith).faults
    assert {"libtorch_python.so", "libtorch_global_deps.so", "libc10_cuda.so"} <= {fault.file for fault in faults}
    assert any(fault.detail == "libcuda.so.1" for fault in faults if fault.file == "libcaffe2_nvrtc.so")


@pytest.fixture
def inside(tmp_path: Path) -> RootEnvironment:
    """The Debian root with the layers that the smoke test needs, too, and folders of this test's own."""
    places = replace(Places.of_release(find_project(), "2.6", tmp_path, tmp_path), ccache=tmp_path / "ccache")
    places.create_folders()
    return RootEnvironment(places, made_root("core", "cuda", "stock"))


def test_parity_of_the_monolith_with_itself_and_with_the_cpu_build(inside: RootEnvironment) -> None:
    inside = replace(inside, root=made_root("core", "cuda", "stock", "monolith"))
    folder, seen = inside.places.verify, inside.name_places()["verify"]
    theirs = checks.ask_monolith(Workplace(inside, folder, seen, folder / "log"))
    assert all(one.percent == 100.0 and not one.extra for one in parity.compare_parity(theirs, theirs))
    # counted in trixie's builds before there was a parity check
    assert {key: len(value) for key, value in theirs["dispatcher"].items()} == {
        "CUDA": 1265,
        "SparseCUDA": 172,
        "SparseCsrCUDA": 139,
        "QuantizedCUDA": 51,
        "NestedTensorCUDA": 98,
        "AutocastCUDA": 126,
    }
    stock = {"PYTHONPATH": "/opt/stock/usr/lib/python3/dist-packages"}
    stock["LD_LIBRARY_PATH"] = "/opt/stock/usr/lib/x86_64-linux-gnu:/opt/stock/usr/lib"
    ours = parity.dump_torch(inside.argv(["python3"], stock, "/"), folder, seen)
    found = {one.category: one for one in parity.compare_parity(ours, theirs)}
    assert found["dispatcher CUDA"].percent < 2
    # a CPU build has dispatch keys and empty bases by CUDA's name, and nothing that does something
    assert {"_CUDAGraph.capture_begin", "_nvtx.rangePushA"} <= set(found["torch._C names"].missing)


def test_a_real_nvcc_is_asked(inside: RootEnvironment) -> None:
    variables = variables_for(2, "rootfs", inside.name_places(), {})
    found = probe.probe_environment(inside, variables, "/opt/stock/usr")
    assert (found.nvcc, found.cudnn, found.torch) == ("12.4", "9.1.0", "2.6.0+debian")
    wanted = probe.Stage2Needs("12.4", "2.6.0", ("9.0", "9.0a", "8.0+PTX"), "/opt/stock/usr")
    probe.check_stage2(found, wanted)
    with pytest.raises(DecoupleError, match=r"nvcc 12\.4 does not know it \(choose from 5\.0"):
        probe.check_stage2(found, replace(wanted, archs=("3.5",)))
    hidden = probe.probe_environment(inside, {**variables, "CUDNN_ROOT": "/nowhere"}, "/opt/stock/usr")
    with pytest.raises(DecoupleError, match="cuDNN's headers are missing"):
        probe.check_stage2(hidden, wanted)


KERNEL = """
namespace { __device__ float twice(float x) { return x + x; } }
__global__ void kernel(float* x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
"""


def test_nvcc_compiles_to_the_same_bytes(inside: RootEnvironment) -> None:
    """nvcc names symbols after its process number; behind ``same_names.sh`` that is always the same."""
    folder, seen = inside.places.verify, inside.name_places()["verify"]
    (folder / "kernel.cu").write_text(KERNEL)
    variables = variables_for(2, "rootfs", inside.name_places(), {})
    nvcc = f"nvcc -ccbin {variables['CUDAHOSTCXX']} -arch=sm_90 -c kernel.cu -o"
    both = f"{nvcc} $1.o & $CCACHE_PREFIX {nvcc} $1.same.o & wait -n && wait -n"
    for name in ("first", "second"):
        done = subprocess.run(inside.argv(["bash", "-c", both, "bash", name], variables, seen), capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    plain, same = ([(folder / f"{n}{kind}.o").read_bytes() for n in ("first", "second")] for kind in ("", ".same"))
    assert b"tmpxft_00000002_" in same[0] and same[0] == same[1]
    assert b"tmpxft_" in plain[0] and b"tmpxft_00000002_" not in plain[0]  # what it would be otherwise


def test_a_stage_is_recorded_with_its_own_packages_whatever_else_the_root_has(inside: RootEnvironment) -> None:
    # Stage 1 built together with stage 2 named CUDA's packages in its manifest, so its wheel had other bytes.
    variables = variables_for(1, "rootfs", inside.name_places(), {})
    packages = toolchain.describe_toolchain(inside, 1, ("core",), variables)["packages"]
    assert "ninja-build" in packages
    assert not [name for name in packages if "cuda" in name or "nvidia" in name]
    assert "nvidia-cuda-toolkit" in toolchain.describe_toolchain(inside, 2, ("core", "cuda"), variables)["packages"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root needs no user namespace; run this test as another user")
def test_a_root_without_being_root(tmp_path: Path) -> None:
    require_tool("newuidmap")
    shipped = root_description.load_description()
    layer = replace(shipped.find_layer("core"), packages=("hello",), seen={})
    small = replace(shipped, name="user", layers=(layer,))
    root = rootfs.ensure_root(tmp_path, small, ["core"], log=tmp_path / "log")
    argv = root.make_sandbox().make_command(["sh", "-c", "id -u; hello"])
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0", "Hello, world!"]
    (made,) = rootfs.list_roots(tmp_path, small)
    rootfs.remove_root(made)
    assert not made.exists()
