"""``decouple verify WHEEL --rebuild``: the committed series, applied again to the pinned source, makes its tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.base.paths import find_project
from decouple.cli import main
from decouple.series.digest import compute_series_digest
from tests.unit.index.wheels import make_manifest, make_wheel

pytestmark = pytest.mark.real


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of this repository at its last commit."""
    folder = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(find_project()), str(folder)], check=True)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(folder))
    return folder


def wheel_of(tree: str, checkout: Path, folder: Path) -> str:
    """A small wheel that says it was built from ``tree`` with the checkout's series."""
    manifest = make_manifest("torch", "2.6.0+decoupled.1", None, compute_series_digest(checkout, "2.6"))
    said = replace(manifest, tree=tree).to_json()
    return str(make_wheel(folder, "torch", "2.6.0+decoupled.1", manifest=said))


def test_only_the_tree_that_the_series_gives(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["apply", "2.6", "--debian-patches"]) == 0
    git = ["git", "-C", str(checkout / "build/2.6/src"), "rev-parse"]
    trees = [
        subprocess.run([*git, f"{name}^{{tree}}"], check=True, capture_output=True, text=True).stdout.strip()
        for name in ("HEAD", "HEAD~1")  # whole, and without the overlay
    ]
    assert main(["verify", wheel_of(trees[0], checkout, tmp_path / "good"), "--rebuild"]) == 0
    assert f"the same tree {trees[0]} (with Debian's patches)" in capsys.readouterr().out
    assert main(["verify", wheel_of(trees[1], checkout, tmp_path / "bad"), "--rebuild"]) == 1
    said = capsys.readouterr().err
    assert f"made from tree {trees[1]}; this checkout's series gives {trees[0]} or " in said
