"""What libraries with kernels lack, on real shared libraries: two that use a core, and the core."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError, UsageError
from decouple.cli import main
from decouple.prebuilt import dynamic_symbols, official_symbols, symbols
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from decouple.upstream.remote_zip import RemoteZip
from tests.support.server import FaultyServer
from tests.unit.prebuilt.test_deflate_tail import code

pytestmark = pytest.mark.tools("c++")

CORE = """
#include <string>
namespace c10 { void check(const std::string&) {} int device() { return 0; } }
"""
KERNELS = """
#include <string>
namespace c10 { void check(const std::string&); int device(); }
extern "C" void sgemm_(); extern "C" int cuInit(unsigned);
namespace at { void launch() { c10::check("x"); c10::device(); sgemm_(); cuInit(0); } }
"""


def compiled(text: str, target: Path, *flags: str) -> Path:
    """A shared library out of one C++ source; names that it lacks are its users' affair."""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["c++", "-shared", "-fPIC", "-O0", "-o", str(target), "-x", "c++", "-", "-x", "none", *flags]
    subprocess.run(command, input=text, text=True, check=True)
    return target


@pytest.fixture(scope="module")
def torch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A torch package with both halves."""
    lib = tmp_path_factory.mktemp("torch") / "torch/lib"
    compiled(CORE, lib / "libtorch_cpu.so")
    compiled("int c10;", lib / "libc10.so")
    compiled(KERNELS, lib / "libtorch_cuda.so")
    return lib.parent.parent


def report(kernels: Path, core: Path) -> symbols.SymbolReport:
    return symbols.compare_symbols(
        official_symbols.read_folder_symbols(kernels, official_symbols.KERNELS),
        official_symbols.read_folder_symbols(core, official_symbols.CORE),
    )


def test_the_one_that_the_core_lacks_is_named_with_who_provides_it(torch: Path) -> None:
    found = report(torch, torch)
    assert [(lack.symbol, lack.library, lack.provider) for lack in found.lacking] == [
        ("sgemm_", "libtorch_cuda.so", "BLAS and LAPACK")
    ]
    assert found.asked == {"PyTorch": 2, "BLAS and LAPACK": 1}
    assert "libopenblas" in symbols.find_origin("BLAS and LAPACK")


def test_another_abi_is_one_clear_line(torch: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(KERNELS, tmp_path / "libtorch_cuda.so", "-D_GLIBCXX_USE_CXX11_ABI=0")
    assert report(tmp_path, torch).other_abi
    assert main(["stages", "symbols", "2.6", "--core", str(torch), "--kernels", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "kernels are pre-C++11, the core is C++11" in said
    assert "sgemm_" not in said


def test_a_version_of_a_symbol_counts(tmp_path: Path) -> None:
    """The core of today has the name, but not in the version that the kernels were linked against."""
    script = tmp_path / "versions"
    libraries = {}
    for version in ("V1", "V2"):
        script.write_text(f"{version} {{ global: *; }};")
        libraries[version] = compiled(
            'extern "C" void cblas_sgemm() {}',
            tmp_path / version / "libtorch_cpu.so",
            f"-Wl,--version-script={script},-soname,libtorch_cpu.so",
        )
    users = 'extern "C" void cblas_sgemm(); extern "C" void launch() { cblas_sgemm(); }'
    kernels = compiled(users, tmp_path / "k/libtorch_cuda.so", str(libraries["V1"]))
    faces = [dynamic_symbols.read_file_symbols(kernels)]
    assert symbols.compare_symbols(faces, [dynamic_symbols.read_file_symbols(libraries["V1"])]).lacking == ()
    (lack,) = symbols.compare_symbols(faces, [dynamic_symbols.read_file_symbols(libraries["V2"])]).lacking
    assert lack.symbol == "cblas_sgemm@V1"


def test_what_is_not_there_or_cut_short_is_one_line(torch: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no libtorch_cuda and"):
        official_symbols.read_folder_symbols(tmp_path, official_symbols.KERNELS)
    whole = (torch / "torch/lib/libtorch_cuda.so").read_bytes()
    (tmp_path / "libtorch_cuda.so").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DecoupleError, match=r"libtorch_cuda.so.*ends"):
        official_symbols.read_folder_symbols(tmp_path, official_symbols.KERNELS)


def test_of_a_wheel_only_the_parts_with_names_are_fetched(torch: Path, tmp_path: Path) -> None:
    """The middle of the library is 8 MiB that nobody asks for."""
    lib = torch / "torch/lib"
    (tmp_path / "middle").write_bytes(code(8 << 20))
    include = f'asm(".section .nv_fatbin,\\"a\\"\\n.incbin \\"{tmp_path}/middle\\"\\n.text");'
    large = compiled(KERNELS + include, tmp_path / "libtorch_cuda.so")
    wheel = tmp_path / "torch-2.6.0-cp313-cp313-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(large, "torch/lib/libtorch_cuda.so")
        for name in ("libtorch_cpu.so", "libc10.so"):
            archive.write(lib / name, f"torch/lib/{name}")
    with FaultyServer({"/torch.whl": wheel}) as server:
        file = RemoteFile(wheel.name, (server.url("/torch.whl"),), None, None)
        remote = RemoteZip(file, Downloader(tmp_path / "cache"), tail=1 << 16)
        faces = official_symbols.read_wheel_symbols(remote)
    assert faces.kernels == (dynamic_symbols.read_file_symbols(large),)
    assert faces.received < wheel.stat().st_size // 2


def test_a_wheel_without_cuda_is_told_apart(torch: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "torch.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(torch / "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cpu.so")
    with FaultyServer({"/torch.whl": wheel}) as server:
        file = RemoteFile(wheel.name, (server.url("/torch.whl"),), None, None)
        with pytest.raises(DecoupleError, match="CPU only"):
            official_symbols.read_wheel_symbols(RemoteZip(file, Downloader(tmp_path / "cache")))


@pytest.mark.parametrize(
    ("symbol", "provider"),
    [
        ("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "PyTorch"),
        ("_ZTVN2at10TensorImplE", "PyTorch"),
        ("mkl_blas_cgemv", "MKL"),
        ("zheevd_", "BLAS and LAPACK"),
        ("_ZNSt6thread6_StateD2Ev", "libstdc++"),
        ("cuLaunchKernel", "the NVIDIA driver"),
        ("ncclAllReduce", "CUDA's libraries"),
        ("cusparseLtInit", "CUDA's libraries"),
        ("pthread_create", "the C library"),
        ("frobnicate", "not known"),
    ],
)
def test_who_provides_what(symbol: str, provider: str) -> None:
    assert symbols.find_provider(symbol).name == provider
