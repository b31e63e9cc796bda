"""One ``git cat-file --batch`` for many questions: what it answers, and what is said when it ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from decouple.base import git
from decouple.base.git import GitError, Repository
from decouple.base.objects import ObjectReader, keep_object_reader, read_objects


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.run("init", "-q")
    return made


def blob(repository: Repository, data: bytes) -> str:
    return repository.run("hash-object", "-w", "--stdin", stdin=data).decode().strip()


def test_more_questions_and_larger_answers_than_a_pipe_holds(repository: Repository) -> None:
    large, small = blob(repository, b"l" * 2_000_000), blob(repository, b"s")
    found = read_objects(repository, [large, *[small] * 9000, large])
    assert [len(one.data) for one in found if one] == [2_000_000, *[1] * 9000, 2_000_000]


def test_what_is_not_there_is_none_and_the_rest_is_answered(repository: Repository) -> None:
    known = blob(repository, b"text\n")
    found = read_objects(repository, ["0" * 40, known, f"{known}:x y", "no such name"])
    assert [one and (one.id, one.kind, one.data) for one in found] == [None, (known, "blob", b"text\n"), None, None]


def test_one_process_answers_as_long_as_it_is_asked_often(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, ...]] = []
    begin = git.subprocess.Popen

    def counted(words: list[str], **options: object) -> subprocess.Popen[bytes]:
        started.append(tuple(words[-2:]))
        return begin(words, **options)

    first = blob(repository, b"1")
    monkeypatch.setattr(git.subprocess, "Popen", counted)
    with keep_object_reader(repository), keep_object_reader(repository):
        assert read_objects(repository, [first])
        later = blob(repository, b"2")  # by another process, after this one has started
        packed = repository.run("fast-import", "--quiet", stdin=b"blob\ndata 1\n3\n")
        assert packed == b""
        repository.run("repack", "-q", "-a", "-d")
        assert [one and one.data for one in read_objects(repository, [later, first, git_id(b"3")])] == [
            b"2",
            b"1",
            b"3",
        ]
    assert started.count(("cat-file", "--batch")) == 1
    read_objects(repository, [first])
    assert started.count(("cat-file", "--batch")) == 2


def git_id(data: bytes) -> str:
    done = subprocess.run(["git", "hash-object", "--stdin"], input=data, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_the_tree_of_a_commit_is_the_same_either_way(repository: Repository) -> None:
    text = b"commit refs/heads/a\ncommitter a <a@example.org> 0 +0000\ndata 0\nM 100644 inline a\ndata 1\na\n\n"
    repository.run("fast-import", "--quiet", stdin=text)
    commit = repository.read_text("rev-parse", "refs/heads/a")
    often = Repository(repository.root)
    with keep_object_reader(often):
        assert often.read_tree_id(commit) == repository.read_tree_id(commit)
        with pytest.raises(GitError):
            often.read_tree_id("0" * 40)


def test_a_git_that_ends_says_why(tmp_path: Path) -> None:
    one = ObjectReader(tmp_path, {"GIT_DIR": str(tmp_path / "none")})
    with pytest.raises(GitError, match="not a git repository"):
        one.read_objects(["0" * 40])
    one.close()


def test_a_git_that_ended_says_so_as_often_as_it_is_asked(tmp_path: Path) -> None:
    with contextlib.closing(ObjectReader(tmp_path)) as reader:
        for _ in range(3):
            with pytest.raises(GitError):
                reader.read_objects(["HEAD"])


def test_a_killed_one_is_not_waited_for(repository: Repository) -> None:
    one = ObjectReader(repository.root)
    os.kill(one._process.pid, 9)
    one._process.wait()
    with pytest.raises(GitError, match="cat-file"):
        one.read_objects(["0" * 40])
    one.close()
