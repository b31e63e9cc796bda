"""The text of the official wheel of PyTorch 2.6.0 on PyPI, read by range and compared with the source."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.release.manifest import Manifest
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from decouple.upstream.unpacked_release import UnpackedRelease

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_release(find_project(), "2.6")


@pytest.fixture(scope="module")
def fetched(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> UnpackedRelease:
    """Read anew, from PyPI."""
    return fetch_source(manifest, "wheel", cache=tmp_path_factory.mktemp("cache"))


def test_few_requests_and_little_of_the_wheel(fetched: UnpackedRelease) -> None:
    assert "text files of the wheel in 3 requests" in fetched.notes[0]
    assert fetched.files[0].size == 766_624_563


def test_python_files_and_headers_are_those_of_the_source(manifest: Manifest, fetched: UnpackedRelease) -> None:
    source = fetch_source(manifest, "debian").path
    same, differ = 0, []
    for path in fetched.path.rglob("*"):
        name = path.relative_to(fetched.path)
        twin = source / name
        if path.suffix in (".py", ".pyi", ".h", ".cuh") and path.is_file() and twin.is_file():
            if twin.read_bytes() == path.read_bytes():
                same += 1
            else:
                differ.append(str(name))
    assert same > 3000
    assert differ == []


@pytest.mark.parametrize(
    "name",
    ["torch/__init__.py", "torch/cuda/__init__.py", "c10/cuda/CUDAStream.h", "aten/src/ATen/cuda/CUDAContext.h"],
)
def test_what_patches_touch_is_there(fetched: UnpackedRelease, name: str) -> None:
    assert (fetched.path / name).is_file(), name


def test_no_file_of_the_build(fetched: UnpackedRelease) -> None:
    assert not list(fetched.path.glob("aten/src/ATen/ops/*"))
    assert not list(Path(fetched.path).rglob("*.so*"))
