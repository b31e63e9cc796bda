"""Packing: the same tree gives the same bytes; requirements and tag come from what was built."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging import tags
from packaging.requirements import Requirement
from torch_cuda_build import wheel

from tests.support.torch_cuda import INFO

TABLE = Path(wheel.__file__).with_name("requirements.toml")


def test_requirements_are_those_of_the_official_wheel() -> None:
    found = wheel.list_requirements(TABLE, INFO)
    assert found[0] == "torch==2.6.0+decoupled"
    assert any(value.startswith("nvidia-cudnn-cu12==9.1.0.70 ;") for value in found)
    assert any(value.startswith("nvidia-nccl-cu12==2.22.3 ;") for value in found)


@pytest.mark.parametrize(("core", "asked"), [("2.6.0+debian", "2.6.0"), ("2.7.0rc1+cpu", "2.7.0rc1")])
def test_a_stock_core_is_any_build_of_its_release_or_candidate(core: str, asked: str) -> None:
    """Beside a candidate pip was asked for the release, which it is not to pip."""
    info = {**INFO, "core": "stock", "core_version": core, "torch": core[:5]}
    assert wheel.list_requirements(TABLE, info)[0] == f"torch=={asked}"


def test_the_nccl_built_against_is_the_one_asked_for() -> None:
    found = wheel.list_requirements(TABLE, {**INFO, "libraries": {"nccl": "2.21.5", "cudnn": "9.2.0"}})
    assert any(value.startswith("nvidia-nccl-cu12==2.21.5 ;") for value in found)
    assert any(value.startswith("nvidia-cudnn-cu12==9.2.0.* ;") for value in found)  # PyPI's have a fourth number


def test_cuda_13_is_asked_for_as_the_official_wheel_does() -> None:
    info = {
        **INFO,
        "torch": "2.15.0",
        "core": "stock",
        "cuda": "13.2",
        "libraries": {"cudnn": "9.26.0", "nccl": "2.30.7"},
    }
    found = [Requirement(value) for value in wheel.list_requirements(TABLE, info)]
    toolkit = next(one for one in found if one.name == "cuda-toolkit")
    assert str(toolkit.specifier) == "==13.2.2"
    assert {"cublas", "cudart", "cupti", "nvtx"} <= toolkit.extras
    assert "nvidia-cudnn-cu13==9.26.0.51" in {f"{one.name}{one.specifier}" for one in found}
    assert not any(one.name == "nvidia-cusparselt-cu13" for one in found), "only where it is compiled in"


def test_a_cuda_version_without_pins_is_an_error() -> None:
    with pytest.raises(KeyError, match=r"99\.9"):
        wheel.list_requirements(TABLE, {**INFO, "cuda": "99.9"})


def test_a_wheel_over_upstreams_kernels_says_so_and_asks_for_what_they_need() -> None:
    info = {**INFO, "core": "stock", "kernels": "official", "libraries": {"cusparselt": "0.6.2"}, "cxx11_abi": "0"}
    requires = wheel.list_requirements(TABLE, info)
    assert any(value.startswith("nvidia-cusparselt-cu12==") for value in requires)
    assert not any("cusparselt" in value for value in wheel.list_requirements(TABLE, INFO))
    text = wheel.format_metadata(info, requires)
    assert "those of PyTorch's own wheel" in text and "pre-C++11" in text
    assert "libtorch_cuda_patched" not in text and "Kineto" not in text
    assert "from Kineto's sources `libtorch_kineto_cuda`" in wheel.format_metadata({**info, "kineto": "ON"}, requires)
    assert "libtorch_cuda_patched" in wheel.format_metadata({**info, "core": "built"}, requires)
    assert "PyTorch's own wheel" not in wheel.format_metadata(INFO, [])


@pytest.mark.parametrize(("soabi", "tag"), [
    ("cpython-39-x86_64-linux-gnu", "cp39-cp39"),
    ("cpython-313-x86_64-linux-gnu", "cp313-cp313"),
    ("cpython-313t-x86_64-linux-gnu", "cp313-cp313t"),
    ("cpython-313d-x86_64-linux-gnu", "cp313-cp313d"),
])  # fmt: skip
def test_the_tag_is_that_of_the_python_and_of_its_abi(soabi: str, tag: str) -> None:
    assert wheel.make_tag({**INFO, "python": soabi}, "linux-x86_64") == f"{tag}-linux_x86_64"


@pytest.mark.parametrize("version", [(3, 13), (3, 14)])
def test_a_free_threaded_python_takes_it(version: tuple[int, int]) -> None:
    """By the tags that packaging, and so pip, has for such a Python."""
    abi = f"{version[0]}{version[1]}t"
    made = wheel.make_tag({**INFO, "python": f"cpython-{abi}-x86_64-linux-gnu"}, "linux-x86_64")
    assert made in map(str, tags.cpython_tags(version, [f"cp{abi}"], ["linux_x86_64"]))


def test_what_a_user_of_linalg_or_rpc_misses_stands_in_the_metadata() -> None:
    """Where an index page and `pip show --verbose` have it; of a library that is there nothing."""
    libraries = {"magma": "off", "tensorpipe": "off"}
    said = wheel.format_metadata({**INFO, "libraries": libraries}, ())
    assert "torch.linalg.eig" in said and "torch.distributed.rpc" in said
    whole = wheel.format_metadata({**INFO, "libraries": {"magma": "2.8.0", "tensorpipe": "on"}}, ())
    assert "Not in this build" not in whole
    assert "Not in this build" not in wheel.format_metadata({**INFO, "libraries": {"cudss": "off"}}, ())


def test_one_to_be_written_anew_is_not_compressed(tmp_path: Path) -> None:
    made = wheel.write_wheel(
        {"torch_cuda/zeros": bytes(100_000)}, INFO, "cp313-cp313-linux_x86_64", tmp_path, [], stored=True
    )
    with zipfile.ZipFile(made) as archive:
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}


def test_same_members_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    library = tmp_path / "libtorch_cuda.so"
    library.write_bytes(b"\x7fELF" * 1000)
    digests = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        members: dict[str, Path | bytes] = {
            "torch_cuda/lib/libtorch_cuda.so": library,
            "torch_cuda.pth": b"import sys\n",
        }
        path = wheel.write_wheel(members, INFO, wheel.make_tag(INFO, "linux-x86_64"), folder, ["torch==2.6.0"])
        assert path.name == "torch_cuda-2.6.0+cu124-cp313-cp313-linux_x86_64.whl"
        digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize(("epoch", "year"), [("1700000000", 2023), ("", 1980)])
def test_an_empty_date_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str, year: int) -> None:
    """A packager's script that found no date ended the build where the wheel is packed, hours later."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with zipfile.ZipFile(wheel.write_wheel({"a": b""}, INFO, "py3-none-any", tmp_path, [])) as archive:
        assert {member.date_time[0] for member in archive.infolist()} == {year}


def test_a_name_with_comma_and_quotation_mark_stands_in_record_as_csv_has_it(tmp_path: Path) -> None:
    odd = 'torch_cuda/a,b "quoted".h'
    path = wheel.write_wheel({odd: b""}, INFO, "py3-none-any", tmp_path, [])
    with zipfile.ZipFile(path) as archive:
        [record] = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = list(csv.reader(archive.read(record).decode().splitlines()))
        assert sorted(name for name, _, _ in rows) == sorted(archive.namelist())


def test_pip_installs_it(tmp_path: Path) -> None:
    """The RECORD and metadata satisfy pip; the .pth lands in site-packages itself."""
    info = {**INFO, "python": f"cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu"}
    path = wheel.write_wheel(
        {"torch_cuda/__init__.py": b"", "torch_cuda.pth": b"\n"},
        info,
        wheel.make_tag(info, "linux-x86_64"),
        tmp_path,
        [],
    )
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target), str(path)],
        check=True,
        capture_output=True,
    )
    assert (target / "torch_cuda.pth").is_file()
    with zipfile.ZipFile(path) as archive:
        entry_points = archive.read("torch_cuda-2.6.0+cu124.dist-info/entry_points.txt").decode()
    assert "[torch.backends.preload]" in entry_points


def test_another_vendors_wheel_has_its_own_name_and_entry_point(tmp_path: Path) -> None:
    """As toolkit/rocm.cmake describes a build; CUDA's has none of these keys."""
    hip = {"package": "torch_hip", "word": "hip", "toolkit": "ROCm", "toolkit_version": "6.4", "hip": "6.4.43484"}
    info = {**{key: value for key, value in INFO.items() if key != "cuda"}, **hip, "version": "2.6.0+rocm6.4"}
    table = TABLE.parents[2] / "torch_hip/requirements.toml"
    requires = wheel.list_requirements(table, info)
    path = wheel.write_wheel({"torch_hip/__init__.py": b""}, info, "py3-none-any", tmp_path, requires)
    assert path.name == "torch_hip-2.6.0+rocm6.4-py3-none-any.whl"
    with zipfile.ZipFile(path) as archive:
        told = "torch_hip-2.6.0+rocm6.4.dist-info"
        points = archive.read(f"{told}/entry_points.txt").decode()
        text = archive.read(f"{told}/METADATA").decode()
    assert points == "[torch.backends.preload]\nhip = torch_hip._preload:preload\n"
    assert text.startswith("Metadata-Version: 2.1\nName: torch-hip\n")
    assert "ROCm 6.4 for a PyTorch 2.6.0" in text
