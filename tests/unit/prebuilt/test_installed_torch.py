"""Kernels of a CUDA build of a distribution: names as PyTorch's own, and what only its own core would have brought."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.prebuilt import dynamic_symbols, installed_torch, kernel_folder, official_symbols, symbols
from decouple.prebuilt.pairing import Pair, RemoteWheel
from decouple.upstream.download import Downloader
from tests.support.files import write_files
from tests.unit.prebuilt.test_symbols import compiled

pytestmark = pytest.mark.tools("c++")

PAIR = Pair("C++11", RemoteWheel("torch.whl", "", 0, "0", "0"), cuda=())
NVCC = '#define NVCC_FLAGS_EXTRA "-gencode;arch=compute_80,code=sm_80"\n'


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A CUDA build of a distribution: versions in the names, and a third party that only libtorch_cpu names."""
    prefix = tmp_path / "usr"
    lib = prefix / "lib/x86_64-linux-gnu"
    pipe = compiled(
        "namespace pipe { void cuda() {} void plain() {} }", lib / "libpipe.so.0", "-Wl,-soname,libpipe.so.0"
    )
    half = compiled("namespace pipe { void gdr() {} }", lib / "libpipe_cuda.so.0", "-Wl,-soname,libpipe_cuda.so.0")
    core = compiled(
        "namespace at { void add() {} }", lib / "libtorch_cpu.so.2.6", "-Wl,--no-as-needed,-soname,libtorch_cpu.so.2.6",
        str(pipe), str(half),
    )  # fmt: skip
    c10 = compiled("namespace c10 { void alloc() {} }", lib / "libc10_cuda.so.2.6", "-Wl,-soname,libc10_cuda.so.2.6")
    kernels = """
namespace at { void add(); } namespace c10 { void alloc(); } namespace pipe { void gdr(); void plain(); }
void use() { at::add(); c10::alloc(); pipe::gdr(); pipe::plain(); }"""
    compiled(kernels, lib / "libtorch_cuda.so.2.6", "-Wl,-soname,libtorch_cuda.so.2.6", str(core), str(c10))
    (lib / "libtorch_cuda.so").symlink_to("libtorch_cuda.so.2.6")
    write_files(prefix / "include", dict(zip(kernel_folder.CONFIG, (NVCC, ""), strict=True)))
    (prefix / "share/doc/libtorch-cuda").mkdir(parents=True)
    (prefix / "share/doc/libtorch-cuda/copyright").write_text("BSD-3-Clause")
    return prefix


def needed(library: Path) -> set[str]:
    command = [kernel_folder.find_patchelf(), "--print-needed", str(library)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def make(source: Path, cache: Path) -> kernel_folder.Halves:
    return installed_torch.make_halves(source, PAIR, cache, Downloader(cache))


def test_what_a_killed_run_left_goes_with_the_next_one(debian: Path, tmp_path: Path) -> None:
    """Gigabytes, in the cache of all checkouts."""
    name = make(debian, tmp_path / "cache").folder.name
    left = tmp_path / f"cache/prebuilt/.{name}.abcd_123.part"
    left.mkdir()
    (tmp_path / "cache/prebuilt" / name).rename(tmp_path / "away")
    make(debian, tmp_path / "cache")
    assert not left.exists()


def test_libraries_have_pytorchs_own_names_and_find_each_other(debian: Path, tmp_path: Path) -> None:
    kernels = make(debian, tmp_path / "cache").kernels
    assert {path.name for path in (kernels / "lib").iterdir()} == {
        "libtorch_cuda.so",
        "libc10_cuda.so",
        "libpipe_cuda.so.0",
    }
    asked = needed(kernels / "lib/libtorch_cuda.so")
    assert {"libc10_cuda.so", "libpipe_cuda.so.0", "libtorch_cpu.so.2.6"} <= asked and "libc10_cuda.so.2.6" not in asked
    said = json.loads((kernels / "kernels.json").read_text())
    assert said["kind"] == "installed" and said["arch_list"] == ["8.0"]
    assert said["libraries"]["libtorch_cuda.so"]["member"] == "libtorch_cuda.so.2.6"
    assert (kernels / "licenses/libtorch-cuda/copyright").read_text() == "BSD-3-Clause"


def test_it_is_made_once_for_the_same_libraries(debian: Path, tmp_path: Path) -> None:
    first = make(debian, tmp_path / "cache").folder
    assert make(debian, tmp_path / "cache").folder == first
    compiled("void other() {}", debian / "lib/x86_64-linux-gnu/libtorch_cuda.so.2.6")
    assert make(debian, tmp_path / "cache").folder != first


def test_a_core_offers_what_lies_beside_it_too(debian: Path, tmp_path: Path) -> None:
    kernels = make(debian, tmp_path / "cache").kernels
    core = tmp_path / "stock"
    compiled("namespace at { void add() {} }", core / "lib/x86_64-linux-gnu/libtorch_cpu.so")
    taken = (
        *official_symbols.read_folder_symbols(kernels, official_symbols.KERNELS),
        *installed_torch.read_third_parties(kernels / "lib"),
    )
    alone = symbols.compare_symbols(taken, official_symbols.read_folder_symbols(core, official_symbols.CORE))
    assert [one.symbol for one in alone.lacking] == ["_ZN4pipe5plainEv"]
    compiled("namespace pipe { void plain() {} }", core / "lib/x86_64-linux-gnu/libpipe.so.0")
    assert (
        symbols.compare_symbols(
            taken,
            (
                *official_symbols.read_folder_symbols(core, official_symbols.CORE),
                *installed_torch.read_third_parties(core),
            ),
        ).lacking
        == ()
    )


def test_a_folder_without_cuda_or_without_headers_is_one_line_and_leaves_nothing(debian: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no libtorch_cuda below it"):
        make(tmp_path / "empty", tmp_path / "cache")
    (debian / "include" / kernel_folder.CONFIG[1]).unlink()
    with pytest.raises(UsageError, match=r"cuda_cmake_macros\.h"):
        make(debian, tmp_path / "cache")
    (debian / "lib/x86_64-linux-gnu/libtorch_cuda.so.2.6").write_bytes(b"\x7fELF cut short")
    with pytest.raises(DecoupleError):
        make(debian, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache/prebuilt").iterdir() if path.suffix != ".lock"] == []


def test_the_symbols_of_what_was_taken_can_be_read(debian: Path, tmp_path: Path) -> None:
    lib = make(debian, tmp_path / "cache").kernels / "lib"
    assert "_Z3usev" in dynamic_symbols.read_file_symbols(lib / "libtorch_cuda.so").defined
