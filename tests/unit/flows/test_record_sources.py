"""``record`` says of each tree of a release whether the series applies, and takes nothing of another tree away."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.release import status
from decouple.release.manifest_toml import render_manifest
from tests.support import releases
from tests.support.series import LINES, World, git
from tests.support.server import FaultyServer, http_server  # noqa: F401 - a fixture


@pytest.fixture
def world(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    http_server: FaultyServer,  # noqa: F811
) -> World:
    """A series of one patch, its release as Debian has it on a server, and an empty cache."""
    files = {"version.txt": "2.6.0a0\n", "torch/core.py": LINES}
    world = World(tmp_path, {**files, "torch/__init__.py": "".join(f"line {number}\n" for number in range(20))})
    world.patch("0001-ask", {"torch/core.py": LINES.replace("line 7\n", "line 7: ask the hook\n")})
    git(tmp_path, "clone", "-q", str(world.upstream), str(tmp_path / "source"))
    shutil.rmtree(tmp_path / "source/.git")
    package = releases.debian_files(tmp_path / "source", tmp_path, releases.DEBIAN_PATCH)
    http_server.files.update({f"/{name}": data for name, data in package.items()})
    release = releases.manifest(releases.debian_source(http_server.base, package))
    (world.project / "series/2.6.toml").write_text(render_manifest(release), encoding="utf-8")
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    return world


def record(world: World, *words: str) -> dict[str, status.AppliesSection]:
    assert main(["record", "2.6", *words]) == 0
    return dict(status.read_status(status.locate_status(world.project, "2.6")).applies)


def test_a_record_of_one_tree_keeps_what_is_known_of_debians(world: World) -> None:
    source = world.project.parent / "source"
    before = record(world)
    assert {name: found.clean for name, found in before.items()} == {"pristine": 1, "debian": 1}
    after = record(world, "--source", f"local:{source}")
    assert after == {**before, "pristine": status.AppliesSection(f"folder {source}", 1)}


def test_what_is_known_of_another_series_goes(world: World) -> None:
    record(world)
    world.patch("0002-more", {"torch/core.py": LINES.replace("line 7\n", "line 7: ask more\n")})
    assert list(record(world, "--source", f"local:{world.project.parent / 'source'}")) == ["pristine"]


def test_a_weaker_look_at_the_same_series_takes_no_proof_away(world: World) -> None:
    """A tree in which CMake ran may be gone by now; a source that the series does not fit says something."""
    path, source = status.locate_status(world.project, "2.6"), world.project.parent / "source"

    def read_level() -> str:
        return next(iter(status.read_status(path).proven.values())).level

    record(world)
    [(identity, row)] = status.read_status(path).proven.items()
    status.update_status(path, proven={identity: status.Proof(row.patch, "configured")})
    record(world, "--source", f"local:{source}")
    assert read_level() == "configured"
    (source / "torch/core.py").write_text("another text\n")
    assert main(["record", "2.6", "--source", f"local:{source}"]) != 0
    assert read_level() == "not proven"


def test_an_empty_cache_and_a_full_one_give_the_same_record(world: World) -> None:
    """The second said "unpacked in the cache" of what the first had called an archive."""
    first = record(world)
    assert {found.source for found in first.values()} == {"debian, pytorch_2.6.0-1.dsc"}
    assert record(world) == first
