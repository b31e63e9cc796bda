"""The torch_cuda wheel as the project itself writes it (metadata, RECORD, build manifest), small, but published,
checked by other people's tools and installed by the real pip and uv."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.build.wheel_finishing import finish_wheel
from decouple.index import site
from decouple.index.check import check_index
from decouple.index.remote import Index
from tests.fault.index.test_install import Installer, environment, install, installed
from tests.support.server import serving
from tests.support.torch_cuda import INFO
from tests.unit.index.wheels import SERIES_A, make_manifest, make_wheel

__all__ = ["environment", "install"]  # fixtures


@pytest.fixture
def requirements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the real wheel asks for."""
    return _backend(monkeypatch).list_requirements(
        Path(_backend(monkeypatch).__file__).with_name("requirements.toml"), INFO
    )


def _backend(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "third_device" / "torch_cuda"))
    from torch_cuda_build import wheel

    return wheel


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirements: list[str]) -> Path:
    """A core and the torch_cuda wheel that the project's writers make for it; without NVIDIA's gigabytes."""
    make_wheel(tmp_path / "dist", "torch", INFO["core_version"])
    members: dict[str, Path | bytes] = {"torch_cuda/__init__.py": b"", "torch_cuda.pth": b"\n"}
    raw = tmp_path / "raw"
    raw.mkdir()
    backend = _backend(monkeypatch)
    finish_wheel(
        backend.write_wheel(members, INFO, "py3-none-any", raw, requirements[:1]),
        tmp_path / "dist",
        replace(make_manifest("torch-cuda", INFO["version"], INFO["cuda"], SERIES_A), flags={"core": "built"}),
        epoch=1738108800,
    )
    return tmp_path / "dist"


def test_the_metadata_is_what_twine_and_the_index_want(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("torch_cuda-*.whl")
    for tool in (["twine", "check", "--strict"], ["check_wheel_contents"]):
        done = subprocess.run([sys.executable, "-m", *tool, str(wheel)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    site.build_site(dist, tmp_path / "site")
    assert check_index(Index(str(tmp_path / "site"))) == []


@pytest.fixture
def address(dist: Path, tmp_path: Path) -> Iterator[str]:
    """Our index, which also has upstream's torch of the same release."""
    make_wheel(dist, "torch", "2.6.0")
    site.build_site(dist, tmp_path / "site")
    with serving(tmp_path / "site") as url:
        yield f"{url}/simple/"


def test_an_official_torch_of_the_same_release_gives_way(install: Installer, environment: Path) -> None:
    assert install("torch===2.6.0").returncode == 0
    assert installed(environment) == {"torch": "2.6.0"}
    assert install("torch-cuda").returncode == 0
    assert installed(environment) == {"torch": "2.6.0+decoupled", "torch-cuda": "2.6.0+cu124"}


def test_a_pin_that_any_torch_of_the_release_meets_is_not_published(dist: Path, tmp_path: Path) -> None:
    manifest = replace(make_manifest("torch-cuda", "2.6.0+cu126", "12.6", SERIES_A), flags={"core": "built"})
    make_wheel(dist, "torch-cuda", "2.6.0+cu126", requires=("torch==2.6.0",), manifest=manifest.to_json())
    with pytest.raises(DecoupleError, match=r"torch==2\.6\.0"):
        site.build_site(dist, tmp_path / "site")


def test_the_whole_metadata_of_the_real_wheel_passes_twine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requirements: list[str]
) -> None:
    path = _backend(monkeypatch).write_wheel(
        {"torch_cuda/__init__.py": b""}, INFO, "cp313-cp313-linux_x86_64", tmp_path, requirements
    )
    with zipfile.ZipFile(path) as archive:
        metadata = archive.read("torch_cuda-2.6.0+cu124.dist-info/METADATA").decode()
    assert metadata.count("Requires-Dist: nvidia-") == 12
    command = [sys.executable, "-m", "twine", "check", "--strict", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
