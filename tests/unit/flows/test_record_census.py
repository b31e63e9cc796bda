"""``record --census`` takes a count of this release, of this series and of every vendor, and no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from decouple.cli import main
from decouple.release import status
from decouple.stack.engine import Stack
from tests.support.series import World, copy_world, git
from tests.unit.flows.test_examples import manifest


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One coupling, which the only patch cuts, and which is cut in the applied tree."""
    world = copy_world(make_world, tmp_path)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    git(tmp_path, "clone", "-q", str(world.upstream), str(tmp_path / "source"))
    shutil.rmtree(tmp_path / "source/.git")
    with Stack.open(world.places) as stack:
        stack.push(1)
    return world


def make_world(root: Path) -> World:
    coupled = "int a;\n#ifdef USE_CUDA\nint b;\n#endif\n"
    lists = 'libtorch_cmake_sources = ["torch/a.cpp"]\n'
    world = World(root, {"torch/a.cpp": coupled, "build_variables.bzl": lists})
    (world.project / "series/2.6.toml").write_text(manifest("2.6"), encoding="utf-8")
    world.patch("0001-cut", {"torch/a.cpp": "int a;\n"})
    world.create()
    return world


def count(world: World, *words: str) -> dict[str, Any]:
    """What ``census --json`` writes of the applied tree."""
    tree, report = world.project.parent / "source", world.project.parent / "census.json"
    assert main(["census", "2.6", "--tree", str(tree), "--after", "--json", str(report), *words]) == 0
    return dict(json.loads(report.read_text()))


def record(world: World, document: dict[str, Any]) -> int:
    report = world.project.parent / "census.json"
    report.write_text(json.dumps(document))
    return main(["record", "2.6", "--source", f"local:{world.project.parent / 'source'}", "--census", str(report)])


def test_the_count_of_this_series_is_recorded(world: World) -> None:
    assert record(world, count(world)) == 0
    known = status.read_status(status.locate_status(world.project, "2.6"))
    assert known.census == status.CensusSection(1, 0, {"rocm": status.VendorCouplings(0, 0)})


def test_a_patch_that_cannot_be_read_is_told_before_the_count(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """`decouple new` leaves an empty one; both trees were counted first, which takes minutes."""
    (world.project / "patches/2.6/0001-cut.patch").write_text("no diff\n")
    tree = str(world.project.parent / "source")
    assert main(["census", "2.6", "--tree", tree, "--after"]) == 1
    said = capsys.readouterr().err
    assert "0001-cut.patch" in said and "findings" not in said


@pytest.mark.parametrize(
    ("key", "other", "told"),
    [
        ("release", "2.7", "summary.release: a census of 2.7, not 2.6"),
        ("series", "f" * 64, "but another (ffffffff)"),
        ("series", None, "but none that `decouple apply` put there, or edits"),
    ],
)
def test_a_count_of_something_else_is_refused(
    world: World, capsys: pytest.CaptureFixture[str], key: str, other: str | None, told: str
) -> None:
    document = count(world)
    document["summary"][key] = other
    assert record(world, document) == 1
    assert told in capsys.readouterr().err
    assert not status.locate_status(world.project, "2.6").exists()


def test_the_count_of_a_tree_that_was_edited_since_is_of_no_series(world: World) -> None:
    """By hand, or in a commit of one's own on top: what was counted is not what the series makes."""
    (world.source / "torch/a.cpp").write_text("int b;\n")
    assert count(world)["summary"]["series"] is None
    git(world.source, "commit", "-qam", "mine")
    assert count(world)["summary"]["series"] is None


def test_another_schema_and_a_number_below_nothing_are_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    document = count(world)
    assert record(world, {**document, "schema": 1}) == 1
    assert "schema: expected 2, found 1" in capsys.readouterr().err
    document["summary"]["vendors"]["cuda"]["key_number"]["before"] = -5
    assert record(world, document) == 1
    assert "key_number.before" in capsys.readouterr().err


def test_a_count_from_before_the_last_change_of_a_patch_is_refused(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    document = count(world)
    patch = world.project / "patches/2.6/0001-cut.patch"
    patch.write_text(patch.read_text().replace("Forwarded: no", "Forwarded: not-needed"))
    assert record(world, document) == 1
    assert "decouple apply 2.6, then decouple census 2.6 --json FILE" in capsys.readouterr().err


def test_the_count_of_one_vendor_takes_nothing_of_the_others_away(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert record(world, count(world)) == 0
    assert record(world, count(world, "--vendor", "cuda")) == 1
    assert "summary.vendors has no rocm" in capsys.readouterr().err
    known = status.read_status(status.locate_status(world.project, "2.6"))
    assert known.census and known.census.vendors == {"rocm": status.VendorCouplings(0, 0)}
