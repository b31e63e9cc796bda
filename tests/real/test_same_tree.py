"""The same series, three ways, on the real source: our engine, `quilt push -a` and `git am` give one git tree id."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from decouple.base.checkout import SeriesPlaces
from decouple.base.paths import find_cache, find_project
from decouple.flows.apply import ApplyRequest, apply_series
from decouple.patch import series_file
from decouple.stack import edits
from decouple.stack.engine import Stack, create_tree
from decouple.upstream.baseline import Baseline, ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release
from tests.support.series import ENVIRONMENT, git, tree_of
from tests.support.tools import require_tool

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    manifest = load_release(find_project(), "2.6")
    return ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that is emptied at once: each real tree is 160 MB."""
    folder = tmp_path_factory.mktemp("real")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def places(scratch: Path, baseline: Baseline) -> SeriesPlaces:
    """The project's series and a tree for it, nothing applied."""
    root = scratch / "project"
    for folder in ("series", "patches"):  # a copy: others may be editing the project while this runs
        shutil.copytree(find_project() / folder, root / folder)
    places = SeriesPlaces("2.6", root / "series/2.6", root / "patches", root / "build/2.6/src")
    create_tree(places, baseline.repo, baseline.commit, baseline.upstream, {})
    return places


@pytest.fixture(scope="module")
def engine_tree(places: SeriesPlaces) -> str:
    with Stack.open(places) as stack:
        moved = stack.push(None)
        assert moved.stopped is None, moved.stopped
        assert stack.applied == series_file.read_series(places.series).names
    assert tree_of(places.tree) == git(places.tree, "rev-parse", "HEAD^{tree}")
    return git(places.tree, "rev-parse", "HEAD^{tree}")


def patches_of(places: SeriesPlaces) -> list[str]:
    return [str(places.patches / name) for name in series_file.read_series(places.series).names]


def checkout(baseline: Baseline, folder: Path) -> Path:
    git(folder.parent, "clone", "-q", "--shared", "--no-checkout", str(baseline.repo), str(folder))
    git(folder, "checkout", "-q", "-f", "--detach", baseline.commit)
    return folder


def test_git_am_gives_the_same_tree(places: SeriesPlaces, engine_tree: str, baseline: Baseline, scratch: Path) -> None:
    folder = checkout(baseline, scratch / "am")
    try:
        git(folder, "am", "-q", "--whitespace=nowarn", *patches_of(places))
        assert git(folder, "rev-parse", "HEAD^{tree}") == engine_tree
    finally:
        shutil.rmtree(folder)


def test_quilt_gives_the_same_tree(places: SeriesPlaces, engine_tree: str, baseline: Baseline, scratch: Path) -> None:
    """On plain files, without git; the tree id is found by hashing what quilt left, mode bits included."""
    require_tool("quilt", "patch")
    folder = checkout(baseline, scratch / "quilt")
    shutil.move(folder / ".git", scratch / "aside.git")
    try:
        done = subprocess.run(
            ["quilt", "--quiltrc", "-", "push", "-a", "--fuzz=0"],
            cwd=folder,
            env={**os.environ, "QUILT_PATCHES": str(places.patches), "QUILT_SERIES": str(places.series)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        shutil.rmtree(folder / ".pc")
        shutil.move(scratch / "aside.git", folder / ".git")
        assert tree_of(folder) == engine_tree
    finally:
        shutil.rmtree(folder)


def test_import_then_export_is_byte_identical(places: SeriesPlaces, engine_tree: str, scratch: Path) -> None:
    before = {path: path.read_bytes() for path in places.patches.rglob("*") if path.is_file()}
    series = places.series.read_bytes()
    with Stack.open(places) as stack:
        done = edits.refresh_patches(stack)
        assert done.written.files == {}
        edits.export_patches(stack, scratch / "exported")
    assert {path: path.read_bytes() for path in places.patches.rglob("*") if path.is_file()} == before
    assert places.series.read_bytes() == series
    for name in series_file.read_series(places.series).names:
        assert (scratch / "exported" / name).read_bytes() == (places.patches / name).read_bytes()
    shutil.rmtree(scratch / "exported")


def test_pop_all_gives_the_pristine_tree(places: SeriesPlaces, engine_tree: str, baseline: Baseline) -> None:
    with Stack.open(places) as stack:
        stack.pop(None)
    try:
        assert git(places.tree, "rev-parse", "HEAD") == baseline.commit
        assert tree_of(places.tree) == baseline.tree
    finally:
        with Stack.open(places) as stack:
            stack.push(None)
            assert git(places.tree, "rev-parse", "HEAD^{tree}") == engine_tree


def test_a_tarball_and_a_git_checkout_give_the_same_commit(
    baseline: Baseline, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source as an archive and as a folder that is a git clone: `decouple apply` ends on one commit id."""
    project = find_project()
    own = scratch / "apply"
    for folder in ("series", "patches", "third_device"):
        shutil.copytree(project / folder, own / folder, ignore=shutil.ignore_patterns("__pycache__"))
    clone = checkout(baseline, scratch / "clone")
    archive = scratch / "pytorch-v2.6.0.tar"
    with archive.open("wb") as out:
        subprocess.run(
            ["git", "-C", str(clone), "archive", "--prefix=pytorch-v2.6.0/", "HEAD"],
            stdout=out, env=ENVIRONMENT, check=True,
        )  # fmt: skip
    with tarfile.open(archive) as packed:
        assert packed.getnames()[0].startswith("pytorch-v2.6.0")
    monkeypatch.setenv("DECOUPLE_CACHE", str(scratch / "cache"))
    heads = []
    for source in (archive, clone):
        apply_series(ApplyRequest(own, "2.6", source=f"local:{source}"))
        heads.append(git(own / "build/2.6/src", "rev-parse", "HEAD"))
        shutil.rmtree(own / "build")
    assert heads[0] == heads[1]
