"""A settled conflict is known again by itself: on another release, after other changes, without upstream's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.rebase import resolution_encoding, resolution_replay, resolutions
from decouple.rebase.resolutions import Resolution, SettledFile
from decouple.stack.commits import SCRATCH, NewCommit, write_chain
from decouple.stack.trees import read_entries
from tests.unit.rebase.releases import Upstream, numbered
from tests.unit.rebase.test_session import Project, conflict_in_b, project

__all__ = ["project"]
OLD, NEW = {"a": numbered(1, 60)}, {"a": numbered(1, 60, {20: "ours\n"}), "new": "made\n"}
THEIRS = {"a": numbered(1, 60, {20: "a line of theirs\n"})}
SETTLED = {"a": numbered(1, 60, {20: "a line of theirs\nours, after it\n"}), "new": "made otherwise\n"}


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


def test_a_conflict_that_no_change_takes_out_is_not_settled() -> None:
    """All of it, ours and theirs, would be gone from the file."""
    merged = b"one\n<<<<<<< a\ntheirs\n||||||| b\nold\n=======\nours\n>>>>>>> c\n"
    assert resolution_encoding.replay_changes(merged, ()) is None
    changes = resolution_encoding.record_changes(merged, b"one\nours, after theirs\n")
    assert resolution_encoding.replay_changes(merged, changes) == b"one\nours, after theirs\n"


def test_no_line_of_upstreams_is_kept(upstream: Upstream, tmp_path: Path) -> None:
    path = tmp_path / "1.0-1.1.toml"
    resolutions.remember_resolution(path, settled(upstream))
    text = path.read_text()
    assert "+ours, after it" in text
    assert "theirs" not in text
    assert "line 2" not in text
    assert resolutions.load_resolutions(path) == [settled(upstream)], "written and read it is the same"


FILES = {
    "rocket": (0o100644, numbered(1, 60, {20: "a line of theirs \N{ROCKET}\x7f\tours \N{ROCKET}\x7f\n"}).encode()),
    "latin": (0o100644, numbered(1, 60, {20: "a line of theirs\ncaf\xe9, ours\n"}).encode("latin-1")),
    "script": (0o100755, numbered(1, 60, {20: "ours\n"}).encode()),
    "new/rocket": (0o100644, "\N{ROCKET}\x7f\x00\r\n".encode()),
    "new/latin": (0o100644, b"+caf\xe9"),
    "new/empty": (0o100644, b""),
    "new/run.sh": (0o100755, b"#!/bin/sh\n"),
    "new/link": (0o120000, b"latin"),
    "new/empty.sh": (0o100755, b""),
}


def test_each_file_is_settled_again_as_a_person_made_it(upstream: Upstream, tmp_path: Path) -> None:
    """Whatever characters it has, and whether it is run or a link."""
    there = ("rocket", "latin", "script")
    step = upstream.patch(
        upstream.release(dict.fromkeys(there, OLD["a"])), dict.fromkeys(there, numbered(1, 60, {20: "ours\n"}))
    )
    tip = upstream.release(dict.fromkeys(there, THEIRS["a"]))
    tree = write_chain(upstream.repository, upstream.root, [NewCommit(SCRATCH, FILES)])[0]
    made = resolution_replay.make_resolution(
        upstream.repository, step, tip, upstream.repository.read_tree_id(tree), "0" * 40, "caf\udce9 \N{ROCKET}"
    )
    path = tmp_path / "1.0-1.1.toml"
    for _ in range(2):  # also into a file that has one
        resolutions.remember_resolution(path, made)
    (kept,) = resolutions.load_resolutions(path)
    assert kept == made
    assert kept.reason == "caf? \N{ROCKET}"
    assert "caf" not in path.read_text().replace(kept.reason, ""), "of what is no UTF-8 the bytes are kept"
    changes = resolution_replay.replay_resolution(upstream.repository, kept, step, tip)
    assert changes == read_entries(upstream.repository, tree, FILES)


@pytest.mark.parametrize("name", ["caf\udce9", "a\\b"])
def test_a_file_that_cannot_be_named_is_told_and_the_others_stay(tmp_path: Path, name: str) -> None:
    path = tmp_path / "1.0-1.1.toml"
    resolutions.remember_resolution(path, Resolution("a", "a.patch", "0" * 40, ("conflict-1",)))
    before = path.read_bytes()
    with pytest.raises(DecoupleError, match=r"1\.0-1\.1\.toml: cannot hold how") as error:
        files = (SettledFile(name, gone=True),)
        resolutions.remember_resolution(path, Resolution("b", "b.patch", "0" * 40, ("conflict-2",), file=files))
    assert "--skip" in (error.value.next_step or "")
    assert path.read_bytes() == before


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


ALPHA, BETA = ("".join(f"{word} {number}\n" for number in ("one", "two", "three")) for word in ("alpha", "beta"))


@pytest.fixture
def two_targets(project: Project, tmp_path: Path) -> Project:
    """Two later releases, which have the files of the series as they were."""
    project.sources["1.2"] = tmp_path / "source-1.2"
    manifest = (project.root / "series/1.1.toml").read_text()
    project.write("series/1.2.toml", manifest.replace('"1.1"', '"1.2"').replace("1.1.0", "1.2.0"))
    for release in ("1.1", "1.2"):
        project.upstream(release, dict.fromkeys("abc", numbered(1, 60)))
    return project


def begin(project: Project, release: str) -> int:
    ends = (("from-source", "1.0"), ("source", release))
    return project.decouple("1.0", release, *(f"--{option}=local:{project.sources[of]}" for option, of in ends))


@pytest.mark.parametrize("step", ["--skip", "--continue"])
@pytest.mark.parametrize("beside", [{}, {5: "added by upstream\n"}], ids=["no conflict", "a conflict that is settled"])
def test_a_stop_where_git_merges_cleanly_is_settled_for_that_text_alone(
    two_targets: Project, capsys: pytest.CaptureFixture[str], step: str, beside: dict[int, str]
) -> None:
    """A patch adds two blocks; 1.1 has the one elsewhere, 1.2 the other: each time a person has to say which goes.

    It may take out a line, too, beside which upstream added one: that conflict nobody is asked about.
    """
    project, text = two_targets, numbered(1, 60)
    theirs = numbered(1, 60, {number: f"line {number}\n{line}" for number, line in beside.items()})
    project.upstream("1.0", {"e": text})
    ours = {20: f"line 20\n{ALPHA}", 40: f"line 40\n{BETA}", **dict.fromkeys(beside, "")}
    project.patch("0004-fourth", "e", text, numbered(1, 60, ours))
    for release, block in (("1.1", ALPHA), ("1.2", BETA)):
        project.upstream(release, {"e": f"{theirs}tail\n{block}"})
    assert begin(project, "1.1") == 1
    assert "upstream has that already" in capsys.readouterr().out
    if step == "--continue":
        settled = numbered(1, 60, {40: f"line 40\n{BETA}", **beside}) + f"tail\n{ALPHA}"
        (project.root / "build/rebase/src/e").write_text(settled)
        project.git("add", "e")
    assert project.decouple(step, "--reason=upstream has alpha") == 0
    assert begin(project, "1.2") == 1, "that is another block"
    assert project.again("--abort") == 0
    (project.root / "series/1.1").unlink()
    capsys.readouterr()
    assert begin(project, "1.1") == 0
    assert "(settled on 1.1): upstream has alpha" in capsys.readouterr().out


def test_a_recipe_that_would_lose_other_text_asks_again(two_targets: Project) -> None:
    """The text is in a file that the patch itself does not touch."""
    project = two_targets
    edit = '[[edit]]\nfile = "f"\nwhere = [{ line = "begin" }]\nat = [{ begin = "begin", end = "end" }]\nput = ""\n'
    project.write("series/recipes/second.toml", f'schema = 1\nid = "second"\n{edit}')
    for release, line in (("1.1", "alpha"), ("1.2", "beta")):
        project.upstream(release, {"f": f"begin\n{line}_of_upstreams\nend\n"})
    assert begin(project, "1.1") == 1
    assert project.decouple("--skip", "--reason=nobody needs alpha") == 0
    assert begin(project, "1.2") == 1, "that is other text"


def test_a_file_that_the_patch_deletes_is_gone_for_that_text_of_upstreams_alone(upstream: Upstream) -> None:
    step = upstream.patch(upstream.release({"a": OLD["a"], "b": "b\n"}), {"b": "b\n"})
    tip, other = (upstream.release({"a": numbered(1, 60, {9: line}), "b": "b\n"}) for line in ("one\n", "two\n"))
    known = resolution_replay.make_resolution(upstream.repository, step, tip, None, "0" * 40, "stage 2 has it")
    assert resolution_replay.recall_resolution(upstream.repository, [known], step, tip) == known
    assert resolution_replay.recall_resolution(upstream.repository, [known], step, other) is None
