"""A conflict is told with the upstream commits behind it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.rebase.history import check_clone, explain_stops
from decouple.rebase.verdicts import CarryResult, Note, Verdict
from tests.unit.rebase.releases import numbered


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Upstream between two tags: one commit rewrites line 20, one line 50, one deletes a file."""

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=u", "-c", "user.email=u@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    def commit(subject: str, **files: str | None) -> None:
        for name, text in files.items():
            path = tmp_path / f"{name}.cpp"
            path.unlink() if text is None else path.write_text(text)
        git("add", "-A")
        git("commit", "-qm", subject)

    git("init", "-q")
    commit("start", a=numbered(1, 60), b="b\n")
    git("tag", "v1.0")
    commit("Rewrite line 20", a=numbered(1, 60, {20: "twenty\n"}))
    commit("Rewrite line 50", a=numbered(1, 60, {20: "twenty\n", 50: "fifty\n"}))
    commit("Remove b", b=None)
    git("tag", "v1.1")
    return tmp_path


def told(clone: Path, note: Note, origins: dict[str, str] | None = None) -> list[str]:
    (one,) = explain_stops([CarryResult("p", Verdict.CONFLICT, notes=(note,))], clone, "v1.0", "v1.1", origins or {})
    return [commit.split(" ", 1)[1] for commit in one.notes[0].commits]


def test_the_commit_behind_the_lines_and_no_other(clone: Path) -> None:
    lines = ("line 18", "line 19", "twenty", "line 21")
    assert told(clone, Note("a.cpp", 18, "hunk 1 does not apply", found=lines)) == ["Rewrite line 20"]


def test_a_moved_file_is_looked_up_where_upstream_has_it(clone: Path) -> None:
    note = Note("third_device/a.cpp", 49, "hunk 2 does not apply", found=("line 49", "fifty"))
    assert told(clone, note, {"third_device/a.cpp": "a.cpp"}) == ["Rewrite line 50"]


def test_who_deleted_a_file(clone: Path) -> None:
    assert told(clone, Note("b.cpp", 0, "not in this release")) == ["Remove b"]


def test_a_patch_that_fits_is_not_looked_up(clone: Path) -> None:
    one = CarryResult("p", Verdict.OFFSET, {}, (Note("a.cpp", 20, "hunk 1: +2 lines"),))
    assert explain_stops([one], clone, "v1.0", "v1.1", {}) == [one]


def test_a_clone_without_the_tag(clone: Path) -> None:
    check_clone(clone, "v1.0", "v1.1")
    for tag, ref in (("v9.9", "tag v9.9"), ("0" * 40, "0" * 40)):
        with pytest.raises(UsageError, match=f"it has no {tag}") as refused:
            check_clone(clone, "v1.0", tag)
        assert refused.value.next_step == (
            f"`git -C {clone} fetch origin {ref}`, or leave --history out where upstream has no such commit"
        )


@pytest.mark.parametrize("name", ["none", "a.cpp", "folder"])
def test_what_is_no_clone_is_refused(clone: Path, name: str) -> None:
    """Of a folder that is not there the advice was to run the same command again."""
    (clone / "folder").mkdir()
    with pytest.raises(UsageError, match="no git repository"):
        check_clone(clone / name, "v1.0")
