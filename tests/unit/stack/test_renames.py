"""Patches that do nothing but rename are applied without git, and to the same end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK, Repository
from decouple.patch.parse import Patch
from decouple.stack import applier
from decouple.stack.applier import ApplyError
from decouple.stack.commits import SCRATCH, NewCommit, write_chain
from decouple.stack.trees import TreeEntry


def renames(moves: Mapping[str, str], more: str = "") -> Patch:
    text = "".join(
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n{more}"
        for old, new in moves.items()
    )
    return Patch("renames", f"Subject: renames\n---\n{text}".encode())


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Repository, str]:
    """A commit with a file, a script, a link, a submodule and a folder."""
    repository = Repository(tmp_path)
    repository.run("init", "-q")
    empty = repository.run("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"").decode().strip()
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    root = repository.run(*identity, "commit-tree", "-m", "root", empty).decode().strip()
    files = {
        "plain": (REGULAR, b"plain\n"),
        "script": (EXECUTABLE, b"script\n"),
        "link": (SYMLINK, b"plain"),
        "folder/one": (REGULAR, b"one\n"),
        "module": TreeEntry(SUBMODULE, "1" * 40),
    }
    return repository, write_chain(repository, root, [NewCommit(SCRATCH, files)])[0]


CASES = {
    "one": {"plain": "new/place"},
    "every kind": {"plain": "a/b", "script": "a/c", "link": "a/d", "folder/one": "e"},
    "a chain": {"plain": "script", "script": "next"},
    "into the place of another": {"plain": "x", "script": "plain"},
    "a taken place": {"plain": "script"},
    "a folder in the way": {"plain": "folder"},
    "below a file": {"plain": "script/x"},
    "below its own place": {"plain": "plain/x"},
    "a file and a folder": {"plain": "x", "script": "x/y"},
    "to one place twice": {"plain": "x", "script": "x"},
    "not there": {"gone": "x"},
    "a folder": {"folder": "x"},
    "a submodule": {"module": "x"},
    "into .git": {"plain": ".git/x"},
    "out of the tree": {"plain": "../x"},
    "through the link": {"plain": "link/x"},
    "to itself": {"plain": "plain"},
}


@pytest.mark.parametrize("moves", CASES.values(), ids=CASES)
def test_the_same_is_made_as_by_git(
    tree: tuple[Repository, str], moves: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, commit = tree

    def made() -> object:
        try:
            return [
                one.changes for one in applier.apply_patches(repository, commit, [renames(moves)], tmp_path / "scratch")
            ]
        except ApplyError as error:
            return error.what

    mine = made()
    monkeypatch.setattr("decouple.stack.applier._apply_renames", lambda before, patches: None)
    assert mine == made()


def test_plain_ones_need_no_git(tree: tuple[Repository, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, commit = tree
    monkeypatch.setattr(Repository, "try_run", None)
    (one,) = applier.apply_patches(repository, commit, [renames(CASES["every kind"])], tmp_path / "scratch")
    assert one.changes["a/b"] is not None
    assert one.changes["plain"] is None


@pytest.mark.parametrize(
    "more", ["old mode 100644\nnew mode 100755\n", "--- a/plain\n+++ b/x\n@@ -1 +1 @@\n-plain\n+p\n"]
)
def test_what_does_more_is_gits(
    tree: tuple[Repository, str], tmp_path: Path, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, commit = tree
    patch = Patch("m", renames({"plain": "x"}).data.replace(b"similarity index 100%\n", b"") + more.encode())
    if more.startswith("old mode"):
        patch = Patch(
            "m", patch.data.replace(more.encode(), b"").replace(b"rename from", more.encode() + b"rename from")
        )
    (one,) = applier.apply_patches(repository, commit, [patch], tmp_path / "scratch")
    assert one.changes["x"] != one.changes["plain"]
    monkeypatch.setattr("decouple.stack.applier._apply_renames", lambda before, patches: None)
    assert applier.apply_patches(repository, commit, [patch], tmp_path / "scratch")[0].changes == one.changes
