"""How a CUDA toolkit is laid out in a root, and what of its libraries is left."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from decouple.build import root_description
from tests.support.inside import load_script
from tests.support.tools import require_tool


@pytest.fixture(scope="module")
def toolkit() -> ModuleType:
    """The script, which runs in a root by itself."""
    return load_script("toolkit")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with a version of its symbols, as NVIDIA's have."""
    require_tool("cc", "readelf")
    (tmp_path / "a.c").write_text("char code[1 << 20] = {1};\nint answer(void) { return 42; }\n")
    (tmp_path / "map").write_text("libanswer.so.7 { global: answer; local: *; };\n")
    made = tmp_path / "libanswer.so.7"
    flags = ["-Wl,-soname,libanswer.so.7", f"-Wl,--version-script={tmp_path / 'map'}"]
    subprocess.run(["cc", "-shared", "-fPIC", *flags, "-o", made, tmp_path / "a.c"], check=True)
    return made


def test_a_thin_library_is_linked_with_and_not_loaded(toolkit: ModuleType, library: Path, tmp_path: Path) -> None:
    size = library.stat().st_size
    toolkit.thin(library)
    assert library.stat().st_size == size > 1 << 20
    assert library.stat().st_blocks * 512 < 1 << 17, "holes"
    (tmp_path / "b.c").write_text("int answer(void);\nint main(void) { return answer(); }\n")
    program = tmp_path / "b"
    words = ["cc", tmp_path / "b.c", "-o", program, library, f"-Wl,-rpath,{tmp_path}", "-Wl,--no-undefined"]
    subprocess.run(words, check=True)
    needed = subprocess.run(["readelf", "-dV", program], check=True, capture_output=True, text=True).stdout
    assert "Shared library: [libanswer.so.7]" in needed
    assert "File: libanswer.so.7" in needed, "the version of the symbol is recorded as with the whole one"
    ran = subprocess.run([program], capture_output=True, text=True)
    assert ran.returncode and "libanswer.so.7: object file has no loadable segments" in ran.stderr


def test_what_is_no_library_stays_as_it_is(toolkit: ModuleType, library: Path, tmp_path: Path) -> None:
    script, link = tmp_path / "libscript.so.1", tmp_path / "liblink.so.1"
    script.write_text("INPUT(-lm)\n")
    link.symlink_to(script.name)
    toolkit.thin(script)
    toolkit.thin(link)
    assert script.read_text() == "INPUT(-lm)\n" and link.is_symlink()


@pytest.mark.parametrize("layer", ["cuda12.4", "cuda11.8"])
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("usr/bin/ptxas", "bin/ptxas"),
        ("usr/bin/nvcc", None),
        ("usr/bin/compute-sanitizer", None),
        ("usr/lib/nvidia-cuda-toolkit/bin/nvcc", "bin/nvcc"),
        ("usr/lib/nvidia-cuda-toolkit/bin/g++", None),
        ("usr/lib/nvidia-cuda-toolkit/bin/crt/link.stub", "bin/crt/link.stub"),
        ("usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1", "lib64/stubs/libcuda.so.1"),
        ("nvidia/cublas/lib/libcublasLt.so.12", "lib64/libcublasLt.so.12"),
        ("nvidia/cudnn/lib/libcudnn.so.9", "lib64/libcudnn.so.9"),
        ("nvidia/cudnn/lib/libcudnn_ops.so.9", None),
        ("nvidia/cuda_nvcc/include/crt/host_config.h", "include/crt/host_config.h"),
        ("nvidia/nccl/include/__init__.py", None),
        ("include/cudnn_frontend/node/matmul.h", "include/cudnn_frontend/node/matmul.h"),
        ("cutlass_library/source/include/cute/layout.hpp", "include/cute/layout.hpp"),
        ("cutlass_library/source/tools/util/include/cutlass/util/a.hpp", "include/cutlass/util/a.hpp"),
        ("cutlass_library/source/examples/a.cu", None),
    ],
)
def test_where_things_go(toolkit: ModuleType, layer: str, name: str, place: str | None) -> None:
    [piece] = root_description.load_description(root_description.PORTABLE).find_layer(layer).toolkit
    assert toolkit.place_of(name, piece.take) == place


def test_a_toolkit_appears_when_it_is_whole(toolkit: ModuleType, library: Path, tmp_path: Path) -> None:
    prefix, packages, wheel = tmp_path / "cuda", tmp_path / "packages", tmp_path / "a.whl"
    (packages / "bin").mkdir(parents=True)
    (packages / "bin/nvcc").write_text("#!/bin/sh\n")
    (packages / toolkit.SUMS).write_text("0 a.deb\n")
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(library, "a/lib/libanswer.so.7")
        archive.write(library, "a/lib/libkept.so.7")
        archive.writestr("a/include/answer.h", "int answer(void);\n")
    asked = f'{{"prefix": "{prefix}", "packages": "{packages}", "wheels": ["{wheel}"], "whole": ["libkept.*"], "take": '
    toolkit.main(asked + '[["bin", "bin"], ["a/lib", "lib64"], ["a/include", "include"]]}')
    found = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if not path.is_dir()}
    libraries = {f"lib64/lib{name}" for name in ("answer.so", "answer.so.7", "kept.so", "kept.so.7")}
    own = {"bin/nvcc", "bin/nvcc.profile", "include/answer.h", toolkit.SUMS}
    assert found == libraries | own | {"lib64/libcudadevrt.a", "lib64/libcudart_static.a"}
    assert (prefix / "lib64/libkept.so").resolve().stat().st_blocks * 512 > 1 << 20
    assert not packages.exists() and not prefix.with_name("cuda.unfinished").exists()
