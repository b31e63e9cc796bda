"""How series and patches relate: range-diff by id, dependencies, and the patch that breaks a command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.series import burndown, check, rangediff
from decouple.series import patch as patches
from decouple.series.bisect import bisect, command_oracle
from decouple.series.depends import dependencies
from decouple.series.patch import Patch
from decouple.series.rangediff import Status
from decouple.series.sources import GitTree
from decouple.series.stack.engine import Stack
from tests.support.series import LINES, World

BODY = "---\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+{}\n c\n"


def cut(name: str, identity: str, text: str = "B", line: int = 1) -> Patch:
    data = f"Decouple-Id: {identity}\n" + BODY.format(text).replace("@@ -1,3 +1,3 @@", f"@@ -{line},3 +{line},3 @@")
    return patches.parse(data.encode(), name=name)


def test_range_diff_goes_by_id_not_by_name() -> None:
    old = [
        cut("1.0/1.patch", "one"),
        cut("1.0/2.patch", "two"),
        cut("1.0/3.patch", "three"),
        cut("1.0/4.patch", "four"),
    ]
    new = [
        cut("1.0/1.patch", "one"),
        cut("1.1/9.patch", "two", line=70),
        cut("1.1/4.patch", "four", "X"),
        cut("1.1/5.patch", "five"),
    ]
    rows = rangediff.compare(old, new)
    assert [(row.identity, row.status) for row in rows] == [
        ("one", Status.SAME_FILE),
        ("two", Status.MOVED),
        ("three", Status.DROPPED),
        ("four", Status.CHANGED),
        ("five", Status.NEW),
    ]
    assert "-+B" in rows[3].difference
    assert "++X" in rows[3].difference


def test_two_patches_of_one_id_cannot_be_compared() -> None:
    with pytest.raises(DecoupleError, match=r"1\.0/2\.patch: has the Decouple-Id of 1\.0/1\.patch"):
        rangediff.compare([cut("1.0/1.patch", "one"), cut("1.0/2.patch", "one")], [])


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four patches: a move, an edit of the moved file, an edit of another file, an edit beside the second one."""
    world = World(tmp_path, {"torch/cuda/streams.py": LINES, "torch/core.txt": LINES, "setup.py": ""})
    changed = LINES.replace("line 5\n", "line five\n")
    world.patch("0001-move", {}, moves={"torch/cuda/streams.py": "moved/streams.txt"})
    world.patch("0002-edit", {"moved/streams.txt": changed})
    world.patch("0003-other", {"torch/core.txt": LINES.replace("line 9\n", "line nine\n")})
    world.patch("0004-beside", {"moved/streams.txt": changed.replace("line 6\n", "line six\n")})
    world.create()
    return world


def test_a_patch_needs_what_it_stands_on(world: World) -> None:
    series = check.load(world.project, "2.6")
    found = dependencies(series, GitTree(world.upstream, "HEAD"))
    assert found == {
        "2.6/0001-move.patch": (),
        "2.6/0002-edit.patch": ("2.6/0001-move.patch",),
        "2.6/0003-other.patch": (),
        "2.6/0004-beside.patch": ("2.6/0002-edit.patch",),
    }


def test_bisect_finds_the_patch_and_leaves_the_stack_as_it_was(world: World) -> None:
    code = "import sys; sys.exit('line nine' in open('torch/core.txt').read())"
    with Stack.open(world.places) as stack:
        stack.push(2)
        found = bisect(stack, command_oracle([sys.executable, "-c", code]))
        assert found.first_bad == "2.6/0003-other.patch"
        assert stack.applied == ("2.6/0001-move.patch", "2.6/0002-edit.patch")


def test_a_command_that_fails_on_the_pristine_tree_blames_no_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="the pristine tree fails too"):
            bisect(stack, command_oracle(["false"]))


def test_a_good_series_is_said_to_be_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.patch("0001-doc", {"README.md": "A better framework.\n"})
    world.create()
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="the whole series is good"):
            bisect(stack, command_oracle(["true"]))
        assert stack.applied == ()


def test_a_broken_python_file_is_found_by_compiling_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.patch("0001-doc", {"README.md": "A better framework.\n"})
    world.patch("0002-broken", {"torch/cuda/__init__.py": "import torch as\n"})
    world.create()
    with Stack.open(world.places) as stack:
        found = bisect(stack, command_oracle(["true"]))
    assert found.first_bad == "2.6/0002-broken.patch"
    assert "torch/cuda/__init__.py does not compile" in found.said


def test_burn_down_counts_what_is_left(world: World, tmp_path: Path) -> None:
    census = tmp_path / "census.json"
    census.write_text('{"summary": {"key_number": {"before": 58, "after": 3}}}')
    row = burndown.row(world.project, "2.6", census)
    assert (row.patches, row.own, row.moved, row.changed) == (4, 4, 1, 6)
    assert (row.couplings_before, row.couplings) == (58, 3)
    assert "<svg" in burndown.as_svg([row])
    census.write_text("{}")
    with pytest.raises(DecoupleError, match="not a census"):
        burndown.row(world.project, "2.6", census)
