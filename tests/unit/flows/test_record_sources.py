"""``record`` says of each tree of a release whether the series applies, and takes nothing of another tree away."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from decouple.cli import main
from decouple.release import status
from decouple.release.manifest_toml import render_manifest
from decouple.series.digest import compute_series_digest
from decouple.upstream.providers.git import GitSource
from tests.support import releases
from tests.support.series import World, git
from tests.support.server import FaultyServer, http_server  # noqa: F401 - a fixture

LINES = "".join(f"line_{number} = {number}\n" for number in range(1, 41))


@pytest.fixture
def world(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    http_server: FaultyServer,  # noqa: F811
) -> World:
    """A series of one patch, its release as Debian has it on a server, and an empty cache."""
    files = {"version.txt": "2.6.0a0\n", "torch/core.py": LINES, "torch/csrc/bind.cpp": "int bound;\n"}
    world = World(tmp_path, {**files, "torch/__init__.py": "".join(f"line {number}\n" for number in range(20))})
    world.patch("0001-ask", {"torch/core.py": LINES.replace("line_7 = 7", "line_7 = ask_the_hook()")})
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


def test_a_tree_whose_source_left_the_manifest_goes(world: World) -> None:
    """Its row stayed for ever, older than every series to come."""
    record(world)
    without = releases.manifest(GitSource("https://example.org/pytorch.git"))
    (world.project / "series/2.6.toml").write_text(render_manifest(without), encoding="utf-8")
    assert list(record(world, "--source", f"local:{world.project.parent / 'source'}")) == ["pristine"]
    marks = status.read_status(status.locate_status(world.project, "2.6")).recorded
    assert "applies/debian" not in marks and "applies/pristine" in marks


def test_of_a_folder_that_is_no_tree_of_pytorch_nothing_is_recorded(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every patch stood as one that fails, and what was proven of it was gone."""
    record(world)
    path = status.locate_status(world.project, "2.6")
    before = path.read_bytes()
    assert main(["record", "2.6", "--source", f"local:{world.project.parent / 'source/torch'}"]) == 1
    assert "none of the files that the series changes" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_each_tree_has_the_day_and_the_series_with_which_it_was_looked_at(world: World) -> None:
    """A look at a folder made what is known of Debian's tree as new as itself."""
    record(world)
    path = status.locate_status(world.project, "2.6")
    old = status.RecordMark("2001-02-03", compute_series_digest(world.project, "2.6"))
    status.update_status(path, recorded={"applies/debian": old, "applies/pristine": old})
    world.patch("0002-more", {"torch/core.py": LINES.replace("line_7 = 7", "line_7 = ask_more()")})
    assert list(record(world, "--source", f"local:{world.project.parent / 'source'}")) == ["debian", "pristine"]
    marks = status.read_status(path).recorded
    assert marks["applies/debian"] == old
    assert marks["applies/pristine"].date > old.date
    assert marks["applies/pristine"].series == compute_series_digest(world.project, "2.6") != old.series


def read_proof(world: World, name: str = "0001-ask") -> status.Proof:
    rows = status.read_status(status.locate_status(world.project, "2.6")).proven.values()
    return next(row for row in rows if row.patch == f"2.6/{name}.patch")


def prove(world: World, level: str) -> None:
    """Record each patch as proven to ``level``, as a tree that is gone by now may have shown."""
    path = status.locate_status(world.project, "2.6")
    known = status.read_status(path).proven
    status.update_status(path, proven={identity: status.Proof(row.patch, level) for identity, row in known.items()})


def test_a_weaker_look_at_the_same_series_takes_no_proof_away(world: World) -> None:
    """A tree in which CMake ran may be gone by now; a source that the series does not fit says something."""
    source = world.project.parent / "source"
    record(world)
    prove(world, "configured")
    record(world, "--source", f"local:{source}")
    assert read_proof(world).level == "configured"
    (source / "torch/core.py").write_text("another text\n")
    assert main(["record", "2.6", "--source", f"local:{source}"]) != 0
    assert read_proof(world).level == "not proven"


def test_a_wheel_takes_nothing_of_what_it_does_not_show_away(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever C++ a patch changes is in no wheel: such a patch was "not proven", and failed on the pristine tree."""
    world.patch("0002-bind", {"torch/csrc/bind.cpp": "int bound, more;\n"})
    before = record(world)
    prove(world, "configured")
    wheel = world.project.parent / "torch-2.6.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/core.py", LINES)
        archive.writestr("torch-2.6.0.dist-info/RECORD", "")
    capsys.readouterr()
    assert main(["record", "2.6", "--source", f"local:{wheel}"]) != 0
    assert f"1 of 2 patches apply to wheel {wheel.name}" in capsys.readouterr().out
    assert status.read_status(status.locate_status(world.project, "2.6")).applies == before
    assert [read_proof(world, name).level for name in ("0001-ask", "0002-bind")] == ["configured", "configured"]


def test_a_proof_goes_when_the_patched_python_does_not_compile(world: World) -> None:
    """It stayed as it was, and what was found was recorded nowhere."""
    source = world.project.parent / "source"
    record(world)
    (source / "torch/core.py").write_text(LINES.replace("line_30 = 30", "line_30 ="))
    record(world, "--source", f"local:{source}")
    proof = read_proof(world)
    assert proof.level == "not proven"
    assert proof.why and proof.why.startswith("torch/core.py does not compile")


def test_an_empty_cache_and_a_full_one_give_the_same_record(world: World) -> None:
    """The second said "unpacked in the cache" of what the first had called an archive."""
    first = record(world)
    assert {found.source for found in first.values()} == {"debian, pytorch_2.6.0-1.dsc"}
    assert record(world) == first
