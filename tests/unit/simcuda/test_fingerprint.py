"""A shadow is compiled once for a torch, and not once for each place where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcuda import build
from simcuda.torchbuild import TorchBuild
from tests.unit.simcuda.hip_headers import write_headers


def install(site: Path, text: str, recorded: str) -> TorchBuild:
    folder, info = site / "torch/lib", site / "torch-2.6.0.dist-info"
    folder.mkdir(parents=True)
    info.mkdir()
    names = ("c10", "torch_cpu", "torch_cuda")
    for name in names:
        (folder / f"lib{name}.so").write_text(text)
    lines = [f"torch/lib/lib{name}.so,sha256={recorded},{len('the library')}" for name in names]
    (info / "RECORD").write_text("\n".join(lines) + "\n")
    return TorchBuild(site, (), (folder,), 0)


def test_the_same_wheel_in_two_places_is_one_torch(tmp_path: Path) -> None:
    first, second = (install(tmp_path / name, "the library", "abc") for name in ("one", "two"))
    assert build.compute_fingerprint("12.4", first) == build.compute_fingerprint("12.4", second)
    other = install(tmp_path / "three", "the library", "def")
    assert build.compute_fingerprint("12.4", first) != build.compute_fingerprint("12.4", other)


def test_a_library_that_was_changed_after_its_installation_is_told_by_its_place(tmp_path: Path) -> None:
    first, second = (install(tmp_path / name, "the library, patched", "abc") for name in ("one", "two"))
    assert build.compute_fingerprint("12.4", first) != build.compute_fingerprint("12.4", second)


def test_stand_ins_of_another_hip_are_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Structures of HIP are other ones from one version to the next."""
    folder = tmp_path / "torch_hip/lib"
    folder.mkdir(parents=True)
    for name in ("c10", "torch_cpu", "torch_hip"):
        (folder / f"lib{name}.so").touch()
    torch, include = TorchBuild(tmp_path, (), (folder,), 1, "hip"), write_headers(tmp_path / "rocm/include")
    monkeypatch.setenv("ROCM_PATH", str(include.parent))
    first = build.compute_fingerprint("12.4", torch)
    (include / "hip/hip_version.h").write_text("#define HIP_VERSION 70200000\n")
    second = build.compute_fingerprint("12.4", torch)
    (include / "miopen").mkdir()  # a package of its own
    (include / "miopen/miopen.h").touch()
    assert len({first, second, build.compute_fingerprint("12.4", torch)}) == 3


def test_what_a_younger_c_library_linked_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookworm Python was given what a trixie root had linked: version GLIBC_2.38 not found."""
    monkeypatch.setenv("SIMCUDA_CACHE", str(tmp_path))

    def make(version: tuple[int, ...]) -> Path:
        monkeypatch.setattr(build, "read_c_library_version", lambda: version)
        folder = build.locate_build_folder("stand-ins", "abc")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "done").touch()
        return folder

    trixie, bookworm = make((2, 41)), make((2, 36))
    assert trixie != bookworm
    assert make((2, 41)) == trixie and make((2, 39)) == bookworm  # an older one's is loaded as it is


def test_the_c_library_of_this_system_has_a_version() -> None:
    assert build.read_c_library_version() >= (2, 31)
