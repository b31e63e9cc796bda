"""One tree of a release: what a build laid under the series, the next command leaves there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.base.git import read_git_text
from decouple.cli import main
from decouple.flows.listener import QUIET
from decouple.flows.work_environment import WorkRequest, ensure_tree
from decouple.upstream import fetch
from decouple.upstream.unpacked_release import UnpackedRelease
from tests.support.series import LINES, World, git

ROOT = Path(__file__).parents[3]
DEBIAN = "--- a/core.txt\n+++ b/core.txt\n@@ -38,3 +38,3 @@\n line 38\n line 39\n-line 40\n+Debian's line\n"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A checkout, and a source package of its release in place of the one on the network."""
    made = World(tmp_path / "world", {"setup.py": "", "core.txt": LINES, "version.txt": "2.6.0a0\n"})
    made.patch("0001-nine", {"core.txt": LINES.replace("line 9\n", "line nine\n")})
    shutil.copy(ROOT / "series/2.6.toml", made.project / "series/2.6.toml")
    manifest = made.project / "series/2.6.toml"
    manifest.write_text(re.sub(r'^(patched_)?tree = ".*"\n', "", manifest.read_text(), flags=re.M))
    source, debian = tmp_path / "source", tmp_path / "debian"
    git(tmp_path, "clone", "-q", str(made.upstream), str(source))
    shutil.rmtree(source / ".git")
    (debian / "patches").mkdir(parents=True)
    (debian / "patches/series").write_text("one.patch\n")
    (debian / "patches/one.patch").write_text(DEBIAN)
    given = UnpackedRelease("debian", "source", source, "package", debian=debian)
    real = fetch.fetch_source

    def hand_out(manifest: object, word: str = "auto", **more: object) -> UnpackedRelease:
        return given if word in ("auto", "debian") else real(manifest, word, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(fetch, "fetch_source", hand_out)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(made.project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return made


def last_line(world: World) -> str:
    return (world.source / "core.txt").read_text().splitlines()[-1]


def test_apply_leaves_debians_patches_that_a_build_laid(world: World) -> None:
    """Else apply and build would lay the tree anew in turns, and each build compile what differs."""
    assert main(["apply", "2.6"]) == 0
    assert last_line(world) == "line 40"
    work = WorkRequest(world.project, "2.6", "rootfs")
    ensure_tree(work, work.places, QUIET)
    assert last_line(world) == "Debian's line"
    head = read_git_text("rev-parse", "HEAD", cwd=world.source)
    assert main(["apply", "2.6"]) == 0
    assert read_git_text("rev-parse", "HEAD", cwd=world.source) == head
    assert main(["apply", "2.6", "--no-debian-patches"]) == 0
    assert last_line(world) == "line 40"


def test_a_build_never_exchanges_a_tree_of_the_users(world: World, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(tmp_path / "source", mine)
    (mine / "own.txt").write_text("mine\n")
    assert main(["apply", "2.6", "--source", str(mine)]) == 0
    work = WorkRequest(world.project, "2.6", "rootfs")
    with pytest.raises(UsageError, match="mine"):
        ensure_tree(work, work.places, QUIET)
    assert (world.source / "own.txt").is_file()


def test_a_source_without_debians_patches_does_not_keep_them(world: World, tmp_path: Path) -> None:
    assert main(["apply", "2.6", "--debian-patches"]) == 0
    assert main(["apply", "2.6", "--source", str(tmp_path / "source")]) == 0
    assert last_line(world) == "line 40"
