"""A full disk is told by the file system, whatever a program of any version or language says of it."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.files import has_no_room, is_disk_full_message
from decouple.base.git import GitError, run_git, try_git
from decouple.base.process import run_logged
from tests.support.small_disk import fill, small_disk

__all__ = ["small_disk"]  # a fixture


def no_inodes(folder: Path) -> None:
    """Mount a file system without a free inode there; skips the test where that is not allowed."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,nr_inodes=3", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("this container may not mount a tmpfs")
    for name in "ab":
        (folder / name).touch()


def test_no_bytes_and_no_inodes_are_no_room(small_disk: Path, tmp_path: Path) -> None:
    assert not has_no_room(small_disk, tmp_path / "not/there/yet")
    fill(small_disk, 0)
    assert has_no_room(tmp_path, small_disk / "not/there/yet")
    no_inodes(tmp_path / "inodes")
    try:
        assert has_no_room(tmp_path / "inodes")
    finally:
        subprocess.run(["umount", str(tmp_path / "inodes")], check=True)


def test_a_file_system_that_is_read_alone_is_not_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image has no free block: a wrong revision of a repository there was told as a full disk."""
    flags = [0]

    def answer(_: Path) -> os.statvfs_result:
        return os.statvfs_result((4096, 4096, 1000, 0, 0, 100, 0, 0, flags[0], 255))

    monkeypatch.setattr(os, "statvfs", answer)
    assert has_no_room(tmp_path)
    flags[0] = os.ST_RDONLY
    assert not has_no_room(tmp_path)


def program(folder: Path, text: str) -> str:
    """A folder for PATH whose git is this script; the variables of `ask` do not change PATH."""
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "git").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_git_says_it_in_words_that_nobody_knows(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "echo 'fatal: kein Platz' >&2; exit 128"))
    with pytest.raises(GitError, match="kein Platz") as raised:
        run_git("add", ".", cwd=small_disk)
    assert "full" not in raised.value.what
    fill(small_disk, 0)
    with pytest.raises(GitError, match=r"disk is full.*kein Platz"):
        try_git("add", ".", cwd=small_disk)


def test_no_is_an_answer_on_a_full_disk_too(small_disk: Path) -> None:
    run_git("init", "-q", cwd=small_disk)
    fill(small_disk, 0)
    assert try_git("rev-parse", "--verify", "--quiet", "refs/heads/none", cwd=small_disk).status == 1


def test_a_long_command_says_it_in_words_that_nobody_knows(small_disk: Path) -> None:
    log = small_disk / "log"
    with pytest.raises(DecoupleError, match=r"status 3.*pas de place"):
        run_logged(["sh", "-c", "echo pas de place; exit 3"], log=log, what="compiling")
    fill(small_disk, 8 << 10)
    with pytest.raises(DecoupleError, match=r"compiling.*pas de place"):
        run_logged(["sh", "-c", "echo pas de place; exit 3"], log=log, what="compiling")


def test_what_gave_its_space_back_has_said_it_by_the_words_of_the_c_library() -> None:
    assert is_disk_full_message(f"cc1plus: fatal error: x.o: {os.strerror(errno.ENOSPC)}")
    assert not is_disk_full_message("error: no such device")
