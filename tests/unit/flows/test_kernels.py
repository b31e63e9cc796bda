"""What is compared of a wheel's machine code: the architectures that it was made for."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.build.environment import HostEnvironment, Places
from decouple.flows.kernels import compare_backend
from tests.support import cubins
from tests.unit.index.wheels import SERIES_A, make_manifest, make_wheel

pytestmark = pytest.mark.tools("cc")

PROJECT = Path(__file__).parents[3]
IMAGE = cubins.cubin([cubins.Made("_ZN2at3addEv", b"a" * 32)])


def make_library(folder: Path, *archs: str) -> Path:
    return cubins.library(folder / "libtorch_cuda.so", [cubins.fatbin([(arch, IMAGE) for arch in archs])])


def make_backend(folder: Path, made_for: tuple[str, ...], *archs: str) -> Path:
    """A wheel of ours made for some architectures, with code for others."""
    folder.mkdir()
    manifest = replace(make_manifest("torch-cuda", "2.6.0+cu124", "12.4", SERIES_A), arch_list=made_for)
    members = {"torch_cuda/lib/libtorch_cuda.so": make_library(folder, *archs).read_bytes()}
    return make_wheel(folder, "torch-cuda", "2.6.0+cu124", manifest=manifest.to_json(), extra_members=members)


@pytest.fixture
def host(tmp_path: Path) -> HostEnvironment:
    return HostEnvironment(Places.of_release(PROJECT, "2.6", tmp_path))


def test_a_wheel_for_fewer_architectures_than_the_other_build_is_whole(tmp_path: Path, host: HostEnvironment) -> None:
    backend = make_backend(tmp_path / "ours", ("9.0",), "sm_90", "sm_90a")
    found = compare_backend(host, backend, str(make_library(tmp_path, "sm_50", "sm_80", "sm_90", "sm_90a")))
    assert (found.ok, found.archs, found.left_out) == (True, ("sm_90", "sm_90a"), ())


def test_what_the_other_build_has_no_code_for_is_named(tmp_path: Path, host: HostEnvironment) -> None:
    backend = make_backend(tmp_path / "ours", ("8.9", "9.0"), "sm_89", "sm_90")
    found = compare_backend(host, backend, str(make_library(tmp_path, "sm_80", "sm_90")))
    assert (found.ok, found.archs, found.left_out) == (True, ("sm_90",), ("sm_89",))


def test_a_wheel_without_code_that_it_was_made_for_is_refused(tmp_path: Path, host: HostEnvironment) -> None:
    """Only sm_90 was compared, and said to be the same."""
    backend = make_backend(tmp_path / "ours", ("8.0", "9.0"), "sm_90")
    with pytest.raises(DecoupleError, match=r"libtorch_cuda\.so: no machine code for sm_80, only sm_90") as caught:
        compare_backend(host, backend, str(make_library(tmp_path, "sm_80", "sm_90")))
    assert "build the wheel that should have it again" in str(caught.value.next_step)


def test_a_wheel_that_lost_the_specific_variant_is_told(tmp_path: Path, host: HostEnvironment) -> None:
    backend = make_backend(tmp_path / "ours", ("9.0",), "sm_90")
    found = compare_backend(host, backend, str(make_library(tmp_path, "sm_90", "sm_90a")))
    assert [(one.what, one.arch) for one in found.found] == [("missing", "sm_90a")] and not found.ok
