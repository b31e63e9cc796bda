"""A settled conflict is known again by itself: on another release, after other changes, without upstream's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.rebase import resolution_replay, resolutions
from decouple.rebase.resolutions import Resolution
from tests.unit.rebase.releases import Upstream, numbered
from tests.unit.rebase.test_session import Project, conflict_in_b, project

__all__ = ["project"]
OLD, NEW = {"a": numbered(1, 60)}, {"a": numbered(1, 60, {20: "ours\n"}), "new": "made\n"}
THEIRS = {"a": numbered(1, 60, {20: "a line of theirs\n"})}
SETTLED = {"a": numbered(1, 60, {20: "a line of theirs\nours, after it\n"}), "new": "made otherwise\n"}


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def settled(upstream: Upstream) -> Resolution:
    step = upstream.patch(upstream.release(OLD), NEW)
    tree = upstream.repository.read_tree_id(upstream.release(SETTLED))
    return resolution_replay.make_resolution(upstream.repository, step, upstream.release(THEIRS), tree, "0" * 40, "")


def replayed(upstream: Upstream, release: dict[str, str], new: dict[str, str] = NEW) -> dict[str, str] | None:
    """What the resolution makes of each file of another release, None where it is not used."""
    known = settled(upstream)
    step, tip = upstream.patch(upstream.release(OLD), new), upstream.release(release)
    found = resolution_replay.recall_resolution(upstream.repository, [known], step, tip)
    changes = found and resolution_replay.replay_resolution(upstream.repository, found, step, tip)
    if not changes:
        return None
    read = upstream.repository.run
    return {path: read("cat-file", "blob", entry.id).decode() for path, entry in changes.items() if entry}


def test_the_same_conflict_in_a_file_with_another_comment(upstream: Upstream) -> None:
    release = {"a": "# one more\n" + THEIRS["a"], "b": "another file\n"}
    assert replayed(upstream, release) == {"a": "# one more\n" + SETTLED["a"], "new": "made otherwise\n"}


def test_a_new_body_of_the_patch(upstream: Upstream) -> None:
    new = {"a": numbered(1, 60, {20: "ours\n", 50: "a hunk more\n"}), "new": "made\n"}
    found = replayed(upstream, THEIRS, new)
    assert found
    assert found["a"] == numbered(1, 60, {20: "a line of theirs\nours, after it\n", 50: "a hunk more\n"})


def test_another_conflict_is_not_this_one(upstream: Upstream) -> None:
    assert replayed(upstream, {"a": numbered(1, 60, {20: "something else\n"})}) is None


def test_a_second_conflict_that_was_not_settled(upstream: Upstream) -> None:
    new = {"a": numbered(1, 60, {20: "ours\n", 50: "ours too\n"}), "new": "made\n"}
    assert replayed(upstream, {"a": numbered(1, 60, {20: "a line of theirs\n", 50: "theirs too\n"})}, new) is None


def test_no_line_of_upstreams_is_kept(upstream: Upstream, tmp_path: Path) -> None:
    path = tmp_path / "1.0-1.1.toml"
    resolutions.remember_resolution(path, settled(upstream))
    text = path.read_text()
    assert "+ours, after it" in text
    assert "theirs" not in text
    assert "line 2" not in text
    assert resolutions.load_resolutions(path) == [settled(upstream)], "written and read it is the same"


def test_a_patch_that_was_left_out_is_left_out_again_with_the_reason(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    conflict_in_b(project)
    assert project.begin() == 1
    assert project.decouple("--skip", "--reason=nobody needs it") == 0
    assert project.series == ["1.0/0001-first.patch", "1.0/0003-third.patch"]
    (project.root / "series/1.1").unlink()
    capsys.readouterr()
    assert project.begin() == 0
    assert "(settled on 1.1): nobody needs it" in capsys.readouterr().out
    assert project.series == ["1.0/0001-first.patch", "1.0/0003-third.patch"]
