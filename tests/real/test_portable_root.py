"""The portable root as it was made: whose compiler runs, and what its tools make of a library that needs OpenMP."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from decouple.base.errors import DecoupleError
from decouple.base.git import run_git
from decouple.base.paths import find_cache, find_project
from decouple.build import remote_cache, root_description, rootfs, settings, wheel_finishing
from decouple.build.environment import Places, RootEnvironment
from decouple.build.rootfs import Root
from decouple.build.sandbox import BindMount, make_clean_environment
from decouple.build.stage1 import graft_libraries
from decouple.device import reuse
from decouple.flows import shell
from decouple.flows.shell import ShellRequest
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.verify import audit
from tests.support.redis_server import Server


@pytest.fixture(scope="module")
def root() -> Root:
    """The one in the cache; a test does not make it, which takes minutes and 3 GiB."""
    shipped = root_description.load_description(root_description.PORTABLE)
    made = Root(shipped, rootfs.choose_folder(find_cache(), shipped, [shipped.find_layer("core")]), ("core",))
    if not made.tree.is_dir() or rootfs.verify_root(made):
        pytest.skip("the portable root is not there (decouple build 2.6 --env portable makes it)")
    return made


def inside(root: Root, work: Path, *command: str) -> str:
    """What a command says that runs in the root, in ``work``."""
    argv = root.make_sandbox([BindMount(work, "/run/folder")]).make_command(
        [*make_clean_environment({}), *command], start="/run/folder"
    )
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_programs_of_a_younger_suite_start_the_roots_own_compiler(root: Root, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("#include <gnu/libc-version.h>\nint main(void) { return __GLIBC_MINOR__; }\n")
    assert "ccache version 4." in inside(root, tmp_path, "ccache", "--version")
    inside(root, tmp_path, "env", "CCACHE_DIR=/run/work/cache", "ccache", "gcc", "-c", "a.c", "-o", "a.o")
    inside(root, tmp_path, "gcc", "a.o", "-o", "a")
    code = subprocess.run(
        root.make_sandbox([BindMount(tmp_path, "/run/folder")]).make_command(["/run/folder/a"])
    ).returncode
    assert code == 31, "the program was compiled with glibc 2.31's headers"


def tiny_wheel(folder: Path, tag: str) -> Path:
    """A wheel of that tag with ``_tiny.so`` of ``folder`` in it."""
    wheel, info = folder / f"tiny-1.0-{tag}.whl", "tiny-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "_tiny.so", "tiny/_tiny.so")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        tags = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n"
        archive.writestr(f"{info}/WHEEL", tags)
        names = [*archive.namelist(), f"{info}/RECORD"]
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in names))
    return wheel


@pytest.mark.tools("readelf")
def test_a_library_that_needs_openmp_becomes_a_manylinux_wheel(root: Root, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("#include <omp.h>\nint threads(void) { return omp_get_max_threads(); }\n")
    inside(root, tmp_path, "gcc", "-shared", "-fPIC", "-fopenmp", "a.c", "-o", "_tiny.so")
    wheel = tiny_wheel(tmp_path, "cp39-cp39-linux_x86_64")
    made = graft_libraries(wheel, lambda what, command: print(what, inside(root, tmp_path, *command)), tmp_path / "log")
    platforms = {tag.platform for tag in parse_wheel_filename(made.name)[3]}
    assert any(re.fullmatch(r"manylinux_2_([12]?\d|3[01])_x86_64", one) for one in platforms), platforms
    with audit.open_folder(made) as folder:
        names = {library.path.name for library in audit.list_libraries(folder)}
        grafted = next(path for path in folder.rglob("libgomp-*"))
        soname = subprocess.run(["readelf", "-d", str(grafted)], capture_output=True, text=True).stdout
    assert any(name.startswith("libgomp") for name in names), names
    assert "soname: [libgomp.so.1]" in soname, "what others made for the official torch finds it by that name"


def test_a_wheel_that_needs_more_than_its_name_says_is_found(root: Root, tmp_path: Path) -> None:
    """Stage 2 gives its wheel a tag, and auditwheel is asked whether the libraries keep it."""
    (tmp_path / "a.c").write_text(
        '#define _GNU_SOURCE\n#include <sys/mman.h>\nint a(void) { return memfd_create("", 0); }\n'
    )
    inside(root, tmp_path, "gcc", "-shared", "-fPIC", "a.c", "-o", "_tiny.so")
    wheel = tiny_wheel(tmp_path, "cp39-cp39-manylinux_2_27_x86_64")
    said = inside(root, tmp_path, *settings.read_facts().portable.show, wheel.name)
    wheel_finishing.check_platform(wheel.name, " ".join(said.split()))
    with pytest.raises(DecoupleError, match="its libraries need manylinux_2_27"):
        wheel_finishing.check_platform(wheel.name.replace("2_27", "2_17"), " ".join(said.split()))


@pytest.mark.parametrize("version", list(settings.read_facts().portable.interpreters))
def test_a_younger_python_is_compiled_for_by_the_old_compiler(version: str, tmp_path: Path) -> None:
    """Its headers are found without a flag, which would give every object of the core another key in the cache."""
    shipped = root_description.load_description(root_description.PORTABLE)
    names = ("core", *settings.read_facts().portable.find_interpreter(version).layers)
    root = Root(
        shipped, rootfs.choose_folder(find_cache(), shipped, [shipped.find_layer(name) for name in names]), names
    )
    if not root.tree.is_dir() or rootfs.verify_root(root):
        pytest.skip(f"no Python {version} in the portable root (build --env portable --python {version} puts it there)")
    (tmp_path / "one.c").write_text(
        "#include <Python.h>\n"
        'static struct PyModuleDef it = {PyModuleDef_HEAD_INIT, "one", 0, -1, 0};\n'
        "PyMODINIT_FUNC PyInit_one(void) { return PyModule_Create(&it); }\n"
    )
    python = settings.read_facts().portable.find_interpreter(version).python
    said = 'import sysconfig as s; print(s.get_path("include"), s.get_config_var("EXT_SUFFIX"))'
    include, suffix = inside(root, tmp_path, python, "-c", said).split()
    inside(root, tmp_path, "gcc", "-shared", "-fPIC", f"-I{include}", "one.c", "-o", f"one{suffix}")
    assert inside(root, tmp_path, python, "-c", "import numpy, yaml, one; print(one.__file__)").endswith(f"{suffix}\n")
    assert suffix.startswith(f".cpython-{version.replace('.', '')}-")


@pytest.mark.tools("redis-server")
def test_objects_reach_the_shared_cache_from_a_root_without_network(root: Root, tmp_path: Path) -> None:
    server = Server(tmp_path / "redis")
    try:
        objects = []
        for machine in ("one", "two"):  # two local caches, one tree as the root shows it
            places = Places.of_release(tmp_path / machine, "2.6", tmp_path / machine / "cache")
            places.create_folders()
            places.tree.mkdir(parents=True)
            (places.tree / "a.c").write_text("int answer(void) { return 42; }\n")
            with remote_cache.open_proxy(server.url, "secret") as proxy:
                environment, variables = proxy.add_to_environment(RootEnvironment(places, root))
                names = environment.name_places()
                variables |= {"CCACHE_DIR": names["ccache"], "CCACHE_BASEDIR": names["base"]}
                command = ["ccache", "gcc", "-O2", "-c", "a.c", "-o", "a.o"]
                subprocess.run(environment.argv(command, variables, names["tree"]), check=True)
                objects.append((places.tree / "a.o").read_bytes())
                counted = (proxy.tally.taken > 0, proxy.tally.put > 0, proxy.tally.failed, proxy.tally.forged)
                assert counted == ((False, True, 0, 0) if machine == "one" else (True, False, 0, 0))
                reached = ["python3", "-c", f"import socket; socket.create_connection(('127.0.0.1', {server.port}))"]
                assert subprocess.run(environment.argv(reached, {}, "/"), capture_output=True).returncode
        assert objects[0] == objects[1]
    finally:
        server.stop()


@pytest.fixture(params=["11.8", "12.4"])
def toolkit(request: pytest.FixtureRequest, root: Root) -> str:
    """The folder of a CUDA toolkit in the root."""
    layer = root.description.find_layer(f"cuda{request.param}")
    done = json.loads((root.folder / "done.json").read_text())["layers"]
    if done.get(layer.name, {}).get("digest") != root_description.compute_layer_digest(layer):
        pytest.skip(f"the layer {layer.name} is not there (decouple build 2.6 --env portable --stage 2 --cuda …)")
    return layer.toolkit[0].prefix


def test_nvcc_compiles_with_the_roots_own_compiler_and_c_library(root: Root, toolkit: str, tmp_path: Path) -> None:
    cuda = toolkit.rpartition("-")[2]
    assert f"release {cuda}" in inside(root, tmp_path, f"{toolkit}/bin/nvcc", "--version")
    includes = "".join(f"#include <{name}>\n" for name in ("cub/cub.cuh", "cuda_bf16.h", "cublas_v2.h", "cudnn.h"))
    (tmp_path / "a.cu").write_text(
        includes + "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
        "int launch(float* x) { twice<<<1, 32>>>(x); return cudaGetLastError() + int(cudnnGetVersion()); }\n"
    )
    words = [f"{toolkit}/bin/nvcc", "-arch=sm_90", "-std=c++17", "-ccbin", "/usr/bin/g++", "-Xcompiler", "-fPIC"]
    inside(root, tmp_path, *words, "-c", "a.cu", "-o", "a.o")
    assert "sm_90" in inside(root, tmp_path, f"{toolkit}/bin/cuobjdump", "-lelf", "a.o")
    folders = [f"-L{toolkit}/lib64", f"-L{toolkit}/lib64/stubs"]
    libraries = ["-lcudart", "-lcudnn", "-lcublas", "-lcuda"]
    inside(
        root, tmp_path, "g++", "-shared", "-o", "a.so", "a.o", *folders, "-Wl,--no-undefined,--no-as-needed", *libraries
    )
    needed = re.findall(r"Shared library: \[(\S+)\]", inside(root, tmp_path, "readelf", "-d", "a.so"))
    names = {"libcudart.so.12", "libcublas.so.12"} if cuda == "12.4" else {"libcudart.so.11.0", "libcublas.so.11"}
    assert {*names, "libcudnn.so.9", "libcuda.so.1"} <= set(needed)
    versions = [int(one) for one in re.findall(r"GLIBC_2\.(\d+)", inside(root, tmp_path, "readelf", "-V", "a.so"))]
    assert versions and max(versions) <= 31


def test_a_shell_of_stage_2_has_the_variables_of_that_toolkit(toolkit: str, tmp_path: Path) -> None:
    """`decouple shell --env portable --stage 2` asked the root for a layer of another root."""
    tree = tmp_path / "src"
    run_git("init", "-q", str(tree), cwd=tmp_path)
    run_git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "x", cwd=tree)
    (tree / "third_party").mkdir()
    cuda = toolkit.rpartition("-")[2]
    asked = ShellRequest(find_project(), "2.6", env="portable", tree=tree, stage=2, cuda=cuda)
    here = shell.open_runner(asked)
    assert here(f'test "$CUDA_HOME" = {toolkit} && $CUDACXX --version | grep -q "release {cuda}"') == 0
    assert here('test "$USE_TENSORPIPE" = OFF') == 0, "what the root lacks is off, as in a build"


def test_a_toolkit_has_each_header_that_the_moved_files_include(root: Root, toolkit: str) -> None:
    """But for those of libraries that a build may go without, and NVTX for C++ (TORCH_CUDA_USE_NVTX3)."""
    without = {"cufile.h", "nvtx3/nvtx3.hpp"} | ({"cusparseLt.h"} if toolkit.endswith("11.8") else set())
    tree = fetch_source(load_release(find_project(), "2.6"), "debian").path
    text = (find_project() / "patches/2.6/0001-relocate-cuda-sources.patch").read_text()
    moved = [tree / name for name in re.findall(r"^rename from (\S+)$", text, re.MULTILINE)]
    include = re.compile(rf"^\s*#\s*include\s*[<\"]({reuse.load_families().headers.pattern})[>\"]", re.MULTILINE)
    names = {name for path in moved if path.is_file() for name in include.findall(path.read_text(errors="replace"))}
    assert {"nvml.h", "cublas_v2.h", "cub/cub.cuh"} <= names
    folder = root.tree / toolkit.lstrip("/") / "include"
    assert {name for name in names if not (folder / name).is_file()} == without


def test_the_libraries_of_a_toolkit_are_for_linking_alone(root: Root, toolkit: str) -> None:
    folder = root.tree / toolkit.lstrip("/")
    taken = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    whole = sum(path.lstat().st_size for path in folder.rglob("*"))
    assert taken < whole / 4
    said = subprocess.run(
        root.make_sandbox().make_command(
            ["python3", "-c", f"import ctypes; ctypes.CDLL('{toolkit}/lib64/libcublasLt.so')"]
        ),
        capture_output=True,
        text=True,
    )
    assert "no loadable segments" in said.stderr
