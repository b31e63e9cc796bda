"""What stands at a path of a git tree, and how little of the tree is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from decouple.base.git import SUBMODULE, TREE
from decouple.base.objects import ObjectReader, keep_object_reader
from decouple.stack.commits import SCRATCH, NewCommit, write_chain
from decouple.stack.trees import TreeEntry, read_entries
from tests.unit.rebase.releases import Upstream

FILES = {"a/b/c.cpp": "one\n", "a/b/d.cpp": "two\n", "a/e": "three\n", "top": "four\n"}


def test_what_stands_in_the_way_is_told(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path / "upstream")
    commit = upstream.release(FILES)
    link = TreeEntry(SUBMODULE, commit)
    (linked,) = write_chain(upstream.repository, commit, [NewCommit(SCRATCH, {"a/sub": link})])
    asked = ["a/b/c.cpp", "a/b/none", "none/x", "a/b", "top/below", "a/e/deep/er", "a/sub", "a/sub/inside"]
    found = read_entries(upstream.repository, linked, asked)
    assert sorted(found) == ["a/b", "a/b/c.cpp", "a/e", "a/sub", "top"]
    assert found["a/b"].mode == TREE
    assert found["a/sub"] == link
    assert read_entries(upstream.repository, "0" * 40, asked) == {}
    assert read_entries(upstream.repository, f"{linked}^{{tree}}", asked) == found


def test_a_folder_that_two_commits_share_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = Upstream(tmp_path / "upstream")
    commits = [upstream.release(FILES), upstream.release({**FILES, "top": "changed\n"})]
    read: list[str] = []
    read_objects = ObjectReader.read_objects

    def record(reader: ObjectReader, names: Sequence[str]) -> object:
        read.extend(names)
        return read_objects(reader, names)

    monkeypatch.setattr(ObjectReader, "read_objects", record)
    with keep_object_reader(upstream.repository):
        entries = [read_entries(upstream.repository, commit, FILES) for commit in commits]
    assert entries[0]["a/b/c.cpp"] == entries[1]["a/b/c.cpp"]
    assert entries[0]["top"] != entries[1]["top"]
    assert len(read) == 4, "each commit's root, and the two folders"
