"""What a machine lacks for a root is told first: before a download, before a root is begun, in one line."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from decouple.base.errors import CANNOT_HERE, CHECK_FAILED
from decouple.build import rootfs
from decouple.cli import main
from decouple.upstream import fetch
from decouple.upstream.download import Downloader

ROOT = Path(__file__).parents[3]
VERBS = (
    ("smoke", "2.6"),
    ("shell", "2.6", "--env", "rootfs", "--run", "true"),
    ("shell", "2.6", "--env", "portable", "--run", "true"),
    ("build", "2.6", "--env", "rootfs"),
    ("build", "2.6", "--env", "portable"),
    ("build", "2.6", "--stage", "2", "--kernels", "official"),
    ("test-cuda", "2.6", "--torch", "monolith", "--device", "simulated"),
    ("try", "patches", "2.6", "--torch", "monolith"),
    ("contract", "2.6", "--env", "rootfs", "--core", "stock"),
    ("try", "wheels", "2.6", "debian-12"),
)
Given = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Given:
    """Make this machine one without some programs, and with ``fakes`` of others (name -> shell script)."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fetched or made first")

    def given(*without: str, **fakes: str) -> None:
        there = tmp_path / "bin"
        there.mkdir()
        for folder in os.environ["PATH"].split(os.pathsep):
            for path in Path(folder).glob("*") if Path(folder).is_dir() else ():
                if path.name not in {*without, *fakes, "nvcc"} and not (there / path.name).is_symlink():
                    (there / path.name).symlink_to(path)
        for name, script in fakes.items():
            (there / name).write_text(f"#!/bin/sh\n{script}\n")
            (there / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(there))

    project = tmp_path / "project"
    for folder in ("series", "patches", "third_device/template"):
        shutil.copytree(ROOT / folder, project / folder, symlinks=True)
    (project / "dist/2.6").mkdir(parents=True)
    (project / "dist/2.6/torch-2.6.0+decoupled-cp311-cp311-linux_x86_64.whl").write_text("")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "fetch_source", refuse)
    monkeypatch.setattr(Downloader, "fetch_file", refuse)
    monkeypatch.setattr(rootfs, "_bootstrap_root", refuse)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 50))  # whatever this machine has
    return given


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words))
def test_a_program_that_is_missing_is_told_with_its_package(
    machine: Given, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    machine("mmdebstrap", "mount", "cmake", "ninja")
    assert main(list(words)) == CHECK_FAILED
    said = capsys.readouterr().err
    assert "mmdebstrap" in said
    assert "apt-get install mount mmdebstrap" in said


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words))
def test_mounts_that_are_refused_are_told(
    machine: Given, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """As in a container that allows namespaces and no mounts in them."""
    machine("cmake", "ninja", mount="echo 'mount: /proc: permission denied.' >&2; exit 32", mmdebstrap="exit 1")
    assert main(list(words)) == CANNOT_HERE
    assert "permission denied" in capsys.readouterr().err


def test_namespaces_that_are_refused_are_told(machine: Given, capsys: pytest.CaptureFixture[str]) -> None:
    refused = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1"
    machine("cmake", "ninja", unshare=refused, mmdebstrap="exit 1")
    assert main(["shell", "2.6", "--env", "rootfs", "--run", "true"]) == CANNOT_HERE
    assert "not permitted" in capsys.readouterr().err


@pytest.mark.parametrize("words", VERBS[1:3], ids=lambda words: " ".join(words))
def test_a_disk_that_cannot_hold_the_root_is_told(
    machine: Given, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    machine("cmake", "ninja", mmdebstrap="exit 1")
    small, large = SimpleNamespace(free=1 << 30), SimpleNamespace(free=1 << 50)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: small if "rootfs" in str(path) else large)
    assert main(list(words)) == CANNOT_HERE
    assert "GiB of disk are needed" in capsys.readouterr().err
