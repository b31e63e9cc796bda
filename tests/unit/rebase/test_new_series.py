"""A new series is applied from its own text before it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.patch.parse import Patch
from decouple.rebase import new_series
from decouple.rebase.new_series import NewSeries
from decouple.rebase.series_carry import RebaseWork, ReleasePair
from decouple.recipes.model import Edit, Recipe, Selector
from tests.unit.rebase.releases import Upstream, numbered
from tests.unit.rebase.test_session import Project, project

__all__ = ["project"]


def test_a_series_that_gives_another_tree_is_not_written(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    old = upstream.release({"a": numbered(1, 40)})
    step = upstream.patch(old, {"a": numbered(1, 40, {20: "cut\n"})})
    new = upstream.release({"a": "new\n" * 9 + numbered(1, 40)})
    sides = ReleasePair("v1.0", old, "v1.1", new)
    (tmp_path / "series").mkdir()
    outcome = RebaseWork(upstream.repository, sides, [step.patch]).run()
    (patch,) = new_series.read_patches(tmp_path, new_series.make_series(tmp_path, outcome, "1.1"))
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
    (tmp_path / "series").mkdir()
    outcome = RebaseWork(upstream.repository, sides, [patch], recipes={"a": recipe}).run()
    (made,) = new_series.read_patches(tmp_path, new_series.make_series(tmp_path, outcome, "1.1"))
    assert made.header_bytes == patch.header_bytes
    assert b"-x(2)" in made.data


def test_two_new_bodies_never_share_a_name(tmp_path: Path) -> None:
    """The series lists a patch of its own and, from an older home, one that is called so, too."""
    (tmp_path / "series").mkdir()
    upstream = Upstream(tmp_path / "upstream")
    text = {name: numbered(1, 40) for name in "ab"}
    old, moved = upstream.release(text), upstream.release({name: "new\n" * 9 + text[name] for name in text})
    cut = {name: text[name].replace("line 20\n", "cut\n") for name in text}
    steps = [
        upstream.patch(old, {**text, "a": cut["a"]}, "0.9/0001-a.patch"),
        upstream.patch(upstream.release({**text, "a": cut["a"]}), cut, "1.0/0001-a.patch"),
    ]
    sides = ReleasePair("v1.0", old, "v1.1", moved)
    outcome = RebaseWork(upstream.repository, sides, [step.patch for step in steps]).run()
    made = new_series.make_series(tmp_path, outcome, "1.1")
    assert made.lines == ("1.1/0001-a.patch", "1.1/0002-a.patch")
    new_series.check_series(upstream.repository, sides, outcome, new_series.read_patches(tmp_path, made))


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


def test_a_series_that_is_made_anew_leaves_the_bodies_that_a_later_one_lists(project: Project, tmp_path: Path) -> None:
    """1.2 was carried from 1.1; then 1.1 is deleted and rebased anew, on another candidate of it."""
    text, longer = numbered(1, 60), "new\n" * 5 + numbered(1, 60)
    project.sources["1.2"] = tmp_path / "source-1.2"
    manifest = (project.root / "series/1.1.toml").read_text()
    project.write("series/1.2.toml", manifest.replace('"1.1"', '"1.2"').replace("1.1.0", "1.2.0"))
    for release in ("1.1", "1.2"):
        project.upstream(release, {"a": text, "b": longer, "c": text})
    source = {release: f"local:{project.sources[release]}" for release in project.sources}
    way = [f"--from-source={source['1.0']}", f"--source={source['1.2']}", f"--via=1.1={source['1.1']}"]
    assert project.decouple("1.0", "1.2", *way) == 0
    first, second, third = "1.0/0001-first.patch", "1.1/0002-second.patch", "1.0/0003-third.patch"
    later = (project.root / "series/1.2").read_text()
    assert second in later
    body = (project.root / "patches" / second).read_bytes()

    for _ in range(2):  # what a series that is deleted had alone is written over
        (project.root / "series/1.1").unlink()
        project.upstream("1.1", {"b": text.replace("line 17\n", "line 17 changed\n")})
        assert project.begin() == 0
        assert project.series == [first, "1.1/0003-second.patch", third]
        assert (project.root / "patches" / second).read_bytes() == body
        assert (project.root / "series/1.2").read_text() == later

    (project.root / "series/1.1").unlink()
    project.upstream("1.1", {"b": longer})
    assert project.begin() == 0
    assert project.series == [first, second, third], "the same body has the same name"


def test_a_manifest_that_is_there_is_not_replaced_by_one_that_was_read_off_a_tree(tmp_path: Path) -> None:
    filled = tmp_path / "series/1.1.toml"
    for path, text in ((filled, "filled\n"), (Checkout(tmp_path).locate_draft_manifest("1.1"), "read off a tree\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    new_series.write_series(tmp_path, "1.1", NewSeries((), ()), old="1.0")
    assert filled.read_text() == "filled\n"
