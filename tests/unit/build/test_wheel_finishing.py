"""A finished wheel's name against what its libraries ask of a system."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build.wheel_finishing import check_platform, finish_wheel
from decouple.release.wheel_manifest import OverlayContent, SeriesContent, WheelManifest

NAME = "torch_cuda-2.6.0+cu124-cp313-cp313-manylinux_2_31_x86_64.whl"


def said(platform: str) -> str:
    """As auditwheel words it; the tag before it is of the libraries that others bring."""
    return f'tag: "linux_x86_64". This constrains the platform tag to "{platform}". In order to'


@pytest.mark.parametrize("platform", ["manylinux_2_5_x86_64", "manylinux_2_17_x86_64", "manylinux_2_31_x86_64"])
def test_a_tag_that_is_kept(platform: str) -> None:
    check_platform(NAME, said(platform))


def test_libraries_of_a_newer_system() -> None:
    with pytest.raises(DecoupleError, match=r"manylinux_2_31.*_2_34"):
        check_platform(NAME, said("manylinux_2_34_x86_64"))


def test_libraries_that_no_policy_has() -> None:
    with pytest.raises(DecoupleError, match="no manylinux"):
        check_platform(NAME, said("linux_x86_64"))


def test_of_a_compressed_tag_the_oldest_system_counts() -> None:
    """An installer takes the wheel where one of its tags fits."""
    both = NAME.replace("manylinux_2_31_x86_64", "manylinux_2_31_x86_64.manylinux_2_17_x86_64")
    check_platform(both, said("manylinux_2_17_x86_64"))
    with pytest.raises(DecoupleError, match="manylinux_2_28"):
        check_platform(both, said("manylinux_2_28_x86_64"))


def test_a_tag_from_before_the_numbers() -> None:
    """``manylinux2014`` is another name of ``manylinux_2_17`` (PEP 600)."""
    old = NAME.replace("manylinux_2_31_x86_64", "manylinux2014_x86_64")
    check_platform(old, said("manylinux_2_17_x86_64"))
    with pytest.raises(DecoupleError, match="manylinux_2_28"):
        check_platform(old, said("manylinux_2_28_x86_64"))


def test_the_level_changes_the_bytes_and_no_member(tmp_path: Path) -> None:
    raw = tmp_path / "torch_cuda-2.6.0-cp313-cp313-linux_x86_64.whl"
    with zipfile.ZipFile(raw, "w") as out:
        out.writestr("torch_cuda/lib/libtorch_cuda.so", b"".join(str(n * n).encode() for n in range(200_000)))
        out.writestr("torch_cuda-2.6.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: torch-cuda\nVersion: 2.6.0\n")
    upstream = {"version": "2.6.0", "tag": "v2.6.0", "commit": "0" * 40}
    series, overlay = SeriesContent("5" * 64, ()), OverlayContent("6" * 64)
    of = WheelManifest("2.6", "torch-cuda", "2.6.0", upstream, (), series, overlay, "7" * 40)
    quick, small, usual = (
        finish_wheel(raw, tmp_path / name, of, 0, *level) for name, level in (("1", [1]), ("6", [6]), ("usual", []))
    )
    assert small.read_bytes() == usual.read_bytes() and quick.stat().st_size > small.stat().st_size * 1.02
    with zipfile.ZipFile(quick) as one, zipfile.ZipFile(small) as other:
        assert one.namelist() == other.namelist()
        assert all(one.read(name) == other.read(name) for name in one.namelist())
