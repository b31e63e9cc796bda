"""A temporary file that somebody planted under the name that a command will use: no link is followed, nothing waits."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path

import pytest

from decouple.base import files
from decouple.build import wheel_finishing
from decouple.index import get, site
from decouple.index.wheel import read_wheel
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import Downloader
from simcuda import build, vendor
from tests.support.plants import Plant
from tests.support.server import FaultyServer
from tests.unit.index.wheels import make_wheel
from tests.unit.torch_cuda import conftest


def test_a_new_file_takes_the_place(tmp_path: Path, plant: Plant) -> None:
    untouched = plant(tmp_path / "x" / ".new.part")
    with files.create_file(tmp_path / "x" / ".new.part") as out:
        out.write(b"new")
    untouched()
    assert (tmp_path / "x" / ".new.part").read_bytes() == b"new"


def test_a_folder_in_the_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        files.create_file(tmp_path / "folder")


def test_a_finished_wheel(tmp_path: Path, plant: Plant) -> None:
    raw = make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4")
    untouched = plant(tmp_path / "out" / f".{raw.name}.part")
    assert wheel_finishing.finish_wheel(raw, tmp_path / "out", wheel_finishing.read_manifest(raw), 0).is_file()
    untouched()


def test_a_wheel_of_stage_2(tmp_path: Path, plant: Plant) -> None:
    assert str(conftest.PROJECT) in sys.path
    info = {"version": "2.6.0+cu124", "torch": "2.6.0", "core_version": "2.6.0", "cuda": "12.4", "core": "built"}
    target = tmp_path / "out" / "torch_cuda-2.6.0+cu124-py3-none-any.whl"
    untouched = plant(target.with_suffix(".partial"))
    importlib.import_module("torch_cuda_build.wheel").write_wheel(
        {"torch_cuda/x": b""}, info, "py3-none-any", tmp_path / "out", []
    )
    untouched()
    assert target.is_file() and not target.is_symlink()


def test_a_published_wheel(tmp_path: Path, plant: Plant) -> None:
    wheel = read_wheel(make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4"))
    untouched = plant(tmp_path / "site" / "files" / "2.6" / f".{wheel.path.name}.part")
    site._publish_wheel(wheel, tmp_path / "site")
    untouched()


def test_a_fetched_wheel(tmp_path: Path, plant: Plant) -> None:
    wheel = read_wheel(make_wheel(tmp_path, "torch-cuda", "2.6.0+cu124", cuda="12.4"))
    untouched = plant(tmp_path / "dist" / f".{wheel.path.name}.part")
    assert get._place_wheel(wheel, tmp_path / "dist").path.read_bytes() == wheel.path.read_bytes()
    untouched()


@pytest.mark.parametrize("known", [True, False])
def test_a_download(tmp_path: Path, plant: Plant, known: bool) -> None:
    """Which goes on with what an earlier run left, if that is a file of ours."""
    data = b"x" * 5000
    sha256 = hashlib.sha256(data).hexdigest()
    with FaultyServer() as server:
        (tmp_path / "served").write_bytes(data)
        server.files["/a.bin"] = tmp_path / "served"
        file = RemoteFile("a.bin", (server.url("/a.bin"),), len(data) if known else None, sha256)
        untouched = plant(tmp_path / "cache" / "downloads" / sha256 / "a.bin.part")
        path, _ = Downloader(tmp_path / "cache", attempts=1, sleep=lambda _: None).fetch_file(file)
    untouched()
    assert path.read_bytes() == data and path.stat().st_nlink == 1


def test_a_stand_in_and_its_listing(tmp_path: Path, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor.symbols, "read_defined_functions", lambda path: ["cudaMalloc"])
    untouched = plant(tmp_path / "cache" / f"listed.part{os.getpid()}")
    vendor.write_listing(tmp_path / "lib.so", tmp_path / "cache" / "listed")
    untouched()
    assert (tmp_path / "cache" / "listed").read_text() == "cudaMalloc\n"


def test_a_folder_of_stand_ins_is_made_where_nothing_was(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / f"made.part{os.getpid()}").symlink_to(tmp_path / "outside")
    part = vendor.make_part_folder(tmp_path / "made")
    (part / "x").touch()
    assert build._finish_folder(part, tmp_path / "made") == tmp_path / "made"
    assert (tmp_path / "made/x").exists() and not list((tmp_path / "outside").iterdir())
