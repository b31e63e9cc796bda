"""Taking the libraries with kernels out of a wheel on a server: what is not as it should be is one line and no file."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_project
from decouple.prebuilt import core_half, dynamic_symbols, kernel_folder, official_symbols, pairing, symbols
from decouple.prebuilt.pairing import Pair, RemoteWheel
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from tests.support.files import write_files
from tests.support.server import FaultyServer, truncated
from tests.unit.prebuilt.test_symbols import CORE, KERNELS, compiled

pytestmark = pytest.mark.tools("c++", "readelf")

VERSION = b"__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\n"
CONFIG = b"#define AT_CUDNN_ENABLED() 1\n"
PYTHON = """
struct _object; struct PyMethodDef;
void THCPStream_init(_object*) {} void THCPEvent_init(_object*) {}
void THCPGraph_init(_object*) {} void THCPMemPool_init(_object*) {}
namespace torch::cuda { void initModule(_object*) {} }
PyMethodDef* THCPModule_methods() { return nullptr; }
"""


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an official wheel holds, as far as it matters here."""
    lib = tmp_path_factory.mktemp("official")
    compiled(CORE + 'extern "C" void sgemm_() {}', lib / "libtorch_cpu.so")
    compiled("int c10;", lib / "libc10.so")
    compiled(PYTHON, lib / "libtorch_python.so")
    compiled(KERNELS, lib / "libtorch_cuda.so")
    return {
        **{f"torch/lib/{path.name}": path.read_bytes() for path in lib.glob("*.so")},
        "torch/include/ATen/cuda/CUDAConfig.h": CONFIG,
        "torch/include/c10/cuda/impl/cuda_cmake_macros.h": b"",
        "torch/include/ATen/ATen.h": b"",
        "torch/version.py": VERSION,
        "torch/cuda/__init__.py": b"",
        "torch-2.6.0.dist-info/LICENSE": b"as it is",
    }


def write_wheel(path: Path, content: dict[str, bytes], record: dict[str, bytes] | None = None) -> str:
    """A wheel; its RECORD is that of ``record``. Returns the RECORD's SHA-256."""
    lines = []
    for name, data in (record or content).items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    text = "".join([*lines, "torch-2.6.0.dist-info/RECORD,,\n"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("torch/lib")
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr("torch-2.6.0.dist-info/RECORD", text)
    return hashlib.sha256(text).hexdigest()


Make = Callable[[dict[str, bytes]], tuple[Pair, FaultyServer]]


@pytest.fixture
def published(tmp_path: Path, content: dict[str, bytes]) -> Iterator[Make]:
    """Puts a wheel with any content where the wheel of ``content`` is expected."""
    with FaultyServer() as server:

        def make(served: dict[str, bytes]) -> tuple[Pair, FaultyServer]:
            record = write_wheel(tmp_path / "good.whl", content)
            write_wheel(tmp_path / "served.whl", served, content)
            server.files["/torch.whl"] = tmp_path / "served.whl"
            size = (tmp_path / "served.whl").stat().st_size
            return Pair(
                "C++11", RemoteWheel("torch.whl", server.url("/torch.whl"), size, "ab" * 32, record), ()
            ), server

        yield make


def no_patience(cache: Path) -> Downloader:
    return Downloader(cache, attempts=1, sleep=lambda _: None)


def test_both_halves_come_apart_verified_and_find_each_other(
    published: Make, content: dict[str, bytes], tmp_path: Path
) -> None:
    pair, _ = published(content)
    halves = kernel_folder.make_halves(pair, tmp_path / "cache", Downloader(tmp_path / "cache"))
    library = halves.kernels / "lib/libtorch_cuda.so"
    said = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "$ORIGIN/../../torch/lib" in said
    before = content["torch/lib/libtorch_cuda.so"]
    assert dynamic_symbols.read_file_symbols(library) == dynamic_symbols.read_symbols(
        lambda at, size: before[at : at + size], len(before), library.name, "the wheel's"
    )
    origin = halves.read_origin()["libraries"]["libtorch_cuda.so"]
    assert origin["sha256"] == hashlib.sha256(before).hexdigest()
    assert origin["sha256_with_run_path"] == hashlib.sha256(library.read_bytes()).hexdigest()
    assert (halves.kernels / "licenses/LICENSE").read_bytes() == b"as it is"
    assert (halves.kernels / "include/ATen/cuda/CUDAConfig.h").read_bytes() == CONFIG
    assert not (halves.folder / "torch/lib/libtorch_cuda.so").exists()
    report = symbols.compare_symbols(
        official_symbols.read_folder_symbols(halves.kernels, official_symbols.KERNELS),
        official_symbols.read_folder_symbols(halves.folder, official_symbols.CORE),
    )
    symbols.refuse_mismatch(report, pair.wheel.name)
    assert json.loads((halves.kernels / "kernels.json").read_text())["kind"] == "official"


def test_a_second_time_nothing_is_fetched(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    pair, server = published(content)
    kernel_folder.make_halves(pair, tmp_path / "cache", Downloader(tmp_path / "cache"))
    asked = len(server.requests)
    assert kernel_folder.make_halves(pair, tmp_path / "cache", Downloader(tmp_path / "cache")).received == 0
    assert len(server.requests) == asked


def nothing_stays(pair: Pair, cache: Path, told: str) -> None:
    with pytest.raises(DecoupleError, match=told):
        kernel_folder.make_halves(pair, cache, no_patience(cache))
    assert [path.name for path in (cache / "prebuilt").iterdir() if not path.name.endswith(".lock")] == []


def test_a_library_that_was_tampered_with(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    library = "torch/lib/libtorch_cuda.so"
    pair, _ = published({**content, library: content[library].replace(b"sgemm_", b"dgemm_")})
    nothing_stays(pair, tmp_path / "cache", "libtorch_cuda.so is not the file that its RECORD lists")


def test_a_member_that_the_record_lacks_or_that_leads_out_is_not_written(
    published: Make, content: dict[str, bytes], tmp_path: Path
) -> None:
    pair, _ = published({**content, "torch/include/new.h": b""})
    nothing_stays(pair, tmp_path / "cache", "new.h is not in its RECORD")
    out = f"torch/include/{'../' * 6}new.h"
    record = write_wheel(tmp_path / "served.whl", {**content, out: b""})
    size = (tmp_path / "served.whl").stat().st_size
    wheel = replace(pair.wheel, size=size, sha256="cd" * 32, record=record)
    nothing_stays(replace(pair, wheel=wheel), tmp_path / "cache", "new.h' leads out of the folder of a wheel")
    assert not list(tmp_path.rglob("new.h"))


def test_the_wheel_of_another_release(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    pair, server = published(content)
    write_wheel(tmp_path / "served.whl", {**content, "torch/version.py": VERSION.replace(b"2.6", b"2.7")})
    other = RemoteWheel(
        "torch.whl", pair.wheel.url, (tmp_path / "served.whl").stat().st_size, "cd" * 32, pair.wheel.record
    )
    nothing_stays(Pair("C++11", other, ()), tmp_path / "cache", "its RECORD is not the one of torch.whl")
    assert server.requests


def test_a_file_of_another_size(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    pair, _ = published(content)
    wheel = RemoteWheel("torch.whl", pair.wheel.url, pair.wheel.size + 1, "ab" * 32, pair.wheel.record)
    nothing_stays(Pair("C++11", wheel, ()), tmp_path / "cache", "wrong size")


def test_a_connection_that_ends_early(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    pair, server = published(content)
    server.fault("/torch.whl", truncated(after=100), times=50)
    nothing_stays(pair, tmp_path / "cache", "cannot read torch.whl by range: .*the connection ended")


def test_a_core_without_a_symbol_is_refused_in_one_line(content: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "libtorch_cuda.so").write_bytes(content["torch/lib/libtorch_cuda.so"])
    compiled(CORE, tmp_path / "core/libtorch_cpu.so")
    report = symbols.compare_symbols(
        official_symbols.read_folder_symbols(tmp_path, official_symbols.KERNELS),
        official_symbols.read_folder_symbols(tmp_path / "core", official_symbols.CORE),
    )
    with pytest.raises(DecoupleError, match=r"sgemm_.*BLAS") as told:
        symbols.refuse_mismatch(report, "torch.whl")
    assert "\n" not in str(told.value)


def test_two_cuda_majors_are_refused_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "versions"
    script.write_text("libcudart.so.12 { global: *; };")
    flags = (f"-Wl,--version-script={script},-soname,libcudart.so.12",)
    cudart = compiled('extern "C" void cudaFree() {}', tmp_path / "libcudart.so.12", *flags)
    use = 'extern "C" void cudaFree(); extern "C" void launch() { cudaFree(); }'
    compiled(use, tmp_path / "kernels/lib/libtorch_cuda.so", str(cudart))
    newer = tmp_path / "kernels/cuda/nvidia/cuda_runtime/lib/libcudart.so.13"
    newer.parent.mkdir(parents=True)
    newer.touch()
    told = r"two CUDA majors: the kernels need libcudart.so.12, the headers are those of libcudart.so.13"
    with pytest.raises(DecoupleError, match=told):
        kernel_folder.check_cuda_version(tmp_path / "kernels")


def test_a_release_that_nothing_is_paired_with() -> None:
    assert pairing.load_pair("2.6.0").abi == "pre-C++11"
    with pytest.raises(UsageError, match=r"2\.99"):
        pairing.load_pair("2.99")


@pytest.mark.parametrize("release", ["2.6", "2.15"])
def test_the_pairs_are_what_the_manifests_say(release: str) -> None:
    """The wheel of that version, and of NVIDIA's wheels those that it asks for itself."""
    pair, known = pairing.load_pair(release), load_release(find_project(), release)
    assert pair.wheel.name.startswith(f"torch-{known.version}-cp313-cp313-")
    fetched = dict(wheel.name.split("-")[:2] for wheel in pair.cuda)
    asked = dict(pin.replace("-", "_").split("==") for pin in known.toolchain.libraries)
    shared = fetched.keys() & asked.keys()
    assert {name: fetched[name] for name in shared} == {name: asked[name] for name in shared}
    assert any("nccl" in name for name in shared) and any("cudnn" in name for name in shared)


def test_a_core_half_has_everything_but_the_kernels(published: Make, content: dict[str, bytes], tmp_path: Path) -> None:
    pair, _ = published(content)
    core_half.make_core_half(pair, tmp_path / "site", Downloader(tmp_path / "cache"))
    site = tmp_path / "site"
    assert (site / "torch/lib/libtorch_python.so").exists() and not (site / "torch/lib/libtorch_cuda.so").exists()
    assert "cuda: Optional[str] = None" in (site / "torch/version.py").read_text()
    defined = dynamic_symbols.read_file_symbols(site / "torch_core_half/libwithout_cuda.so").defined
    assert {"_Z18THCPModule_methodsv", "_ZN5torch4cuda10initModuleEP7_object"} <= set(defined)
    with pytest.raises(UsageError, match="is there already"):
        core_half.make_core_half(pair, site, Downloader(tmp_path / "cache"))


def test_without_a_compiler_nothing_is_fetched_for_a_core_half(
    published: Make, content: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, server = published(content)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DecoupleError, match=r"no C\+\+ compiler"):
        core_half.make_core_half(pair, tmp_path / "site", Downloader(tmp_path / "cache"))
    assert not server.requests


def test_a_wheel_that_hides_its_bindings_makes_no_core_half(tmp_path: Path) -> None:
    """As that of 2.15 does: torch._C would keep upstream's bindings, and ours would be compared with nothing."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_bytes(VERSION)
    compiled(PYTHON, tmp_path / "torch/lib/libtorch_python.so", "-fvisibility=hidden")
    with pytest.raises(DecoupleError, match="THCPModule_methods"):
        core_half.finish_core(tmp_path)


def test_a_core_half_of_an_installed_wheel_takes_nothing_from_it(
    content: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a virtual environment beside that Python's: what both share is linked, what differs is new."""
    write_files(tmp_path / "official", {**content, "torch/__init__.py": b""})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "official"))
    with zipfile.ZipFile(tmp_path / "torch_cuda.whl", "w") as wheel:
        wheel.writestr("torch_cuda/__init__.py", "")
    python = core_half.make_environment(Path(sys.executable), tmp_path / "half", tmp_path / "torch_cuda.whl")
    monkeypatch.delenv("PYTHONPATH")
    site = next((tmp_path / "half/lib").glob("python3*/site-packages"))
    assert not (site / "torch/lib/libtorch_cuda.so").exists()
    assert (site / "torch/lib/libtorch_cpu.so").samefile(tmp_path / "official/torch/lib/libtorch_cpu.so")
    assert (tmp_path / "official/torch/version.py").read_bytes() == VERSION
    assert "cuda: Optional[str] = None" in (site / "torch/version.py").read_text()
    assert subprocess.run([str(python), "-c", "import torch_cuda"], check=False).returncode == 0
    with pytest.raises(UsageError, match="no torch with CUDA"):
        core_half.make_environment(python, tmp_path / "half of a half")


def test_what_is_fetched_says_which_folder_it_is() -> None:
    """Other headers of NVIDIA's beside the same kernels are another folder."""
    pair = pairing.load_pair("2.6")
    assert replace(pair, cuda=pair.cuda[1:]).hash_content() != pair.hash_content()
