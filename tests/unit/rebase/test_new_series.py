"""A new series is applied from its own text before it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.patch.parse import Patch
from decouple.rebase import new_series
from decouple.rebase.new_series import NewSeries
from decouple.rebase.series_carry import RebaseWork, ReleasePair
from decouple.recipes.model import Edit, Recipe, Selector
from tests.unit.rebase.releases import Upstream, numbered


def test_a_series_that_gives_another_tree_is_not_written(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    old = upstream.release({"a": numbered(1, 40)})
    step = upstream.patch(old, {"a": numbered(1, 40, {20: "cut\n"})})
    new = upstream.release({"a": "new\n" * 9 + numbered(1, 40)})
    sides = ReleasePair("v1.0", old, "v1.1", new)
    outcome = RebaseWork(upstream.repository, sides, [step.patch]).run()
    (patch,) = new_series.read_patches(tmp_path, new_series.make_series(outcome, "1.1"))
    new_series.check_series(upstream.repository, sides, outcome, [patch])
    wrong = Patch(patch.name, patch.data.replace(b"+cut", b"+other"))
    with pytest.raises(DecoupleError, match="does not give the tree"):
        new_series.check_series(upstream.repository, sides, outcome, [wrong])


def test_a_patch_that_its_recipe_made_keeps_its_header(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    old = upstream.release({"a": "x(1)\n"})
    step = upstream.patch(old, {"a": "y\n"})
    known = step.patch.data.replace(b"Subject: a patch\n\n", b"Subject: a patch\n\nDecouple-Id: a\n")
    recipe = Recipe(id="a", edit=[Edit(file="a", at=[Selector(line="^x")], put="y")])
    sides = ReleasePair("v1.0", old, "v1.1", upstream.release({"a": "x(2)\n"}))
    patch = Patch(step.patch.name, known)
    outcome = RebaseWork(upstream.repository, sides, [patch], recipes={"a": recipe}).run()
    (made,) = new_series.read_patches(tmp_path, new_series.make_series(outcome, "1.1"))
    assert made.header_bytes == patch.header_bytes
    assert b"-x(2)" in made.data


def test_a_series_that_cannot_be_written_whole_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "patches/1.1/0002-b.patch").mkdir(parents=True)  # no file can be put there
    older = tmp_path / "patches/1.1/0001-a.patch"
    older.write_text("an older one\n")
    bodies = tuple((f"{name}.patch", b"new\n") for name in ("1.1/0001-a", "1.2/0001-c", "1.1/0002-b"))
    with pytest.raises(OSError, match="0002-b"):
        new_series.write_series(tmp_path, "1.1", NewSeries(("1.1/0001-a.patch",), bodies), old="1.0")
    assert older.read_text() == "an older one\n"
    assert not (tmp_path / "patches/1.2").exists()
    assert not (tmp_path / "series/1.1").exists()
