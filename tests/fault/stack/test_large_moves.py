"""A full disk in the middle of a move that is larger than every batch in the code: git itself moves the files then."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.stack import worktree
from decouple.stack.engine import Stack
from tests.fault.stack.test_kill import decouple, half_way
from tests.support.series import World, contents, git, tree_of, usual_world
from tests.support.small_disk import fill, small_disk

__all__ = ["small_disk"]  # a fixture

COUNT = 3 * worktree.FEW


def large_world(root: Path) -> World:
    """A series whose last patch adds and changes far more files than are moved one by one, 4 MiB of them."""
    world = usual_world(root)
    noise = "".join(f"{(number * 2654435761) % 2**32:08x}\n" for number in range(2_500))
    world.patch("0004-many", {f"torch/many/{number}.py": f"# {number}\n{noise}" for number in range(COUNT)})
    return world


@pytest.mark.disk(64)
@pytest.mark.parametrize("leave", [1 << 20, 3 << 20])
@pytest.mark.parametrize("verb", ["push", "pop", "refresh"])
def test_a_full_disk_leaves_old_or_new_or_a_journal_that_the_next_command_finishes(
    small_disk: Path, verb: str, leave: int
) -> None:
    world = large_world(small_disk / "world")
    if verb != "push":
        assert decouple(world, "push", "2.6", "-a").returncode == 0
    if verb == "refresh":
        for number in range(COUNT):
            path = world.source / f"torch/many/{number}.py"
            path.write_text("edited\n" + path.read_text())
    arguments = {"push": ("push", "2.6", "-a"), "pop": ("pop", "2.6", "-a"), "refresh": ("refresh", "2.6")}[verb]
    old_head, old = git(world.source, "rev-parse", "HEAD"), contents(world.source)
    filler = fill(small_disk, leave)
    failed = decouple(world, *arguments)
    if failed.returncode:
        lines = failed.stderr.strip().splitlines()
        assert lines[0].startswith("decouple: ") and len(lines) <= 2, failed.stderr
        assert "refresh` takes edits" not in failed.stderr, "a full disk was taken for a person's edit"
        again = decouple(world, "series", "2.6", "--applied")  # the disk is still full: nothing gets worse
        assert "Traceback" not in again.stderr
    filler.unlink()
    assert decouple(world, "series", "2.6", "--applied").returncode == 0
    if git(world.source, "rev-parse", "HEAD") == old_head:
        assert contents(world.source) == old
        assert decouple(world, *arguments).returncode == 0
    assert git(world.source, "status", "--porcelain", "-uno") == ""
    assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")
    assert git(world.source, "rev-parse", "HEAD") != old_head


def test_an_edit_in_the_way_of_a_large_move_is_still_told_as_one(tmp_path: Path) -> None:
    world = large_world(tmp_path)
    with Stack.open(world.places) as stack:
        stack.push(None)
        (world.source / "torch/many/7.py").write_text("mine\n")
        with pytest.raises(worktree.EditedError, match=r"many/7\.py has edits"):
            stack.pop(1)
        (world.source / "torch/many/7.py").unlink()
        git(world.source, "checkout", "--", "torch/many/7.py")
        stack.pop(None)
        (world.source / "torch/many").mkdir()
        (world.source / "torch/many/9.py").write_text("mine\n")
        with pytest.raises(worktree.EditedError, match=r"many/9\.py is not"):
            stack.push(None)
    assert (world.source / "torch/many/9.py").read_text() == "mine\n"


def test_names_beside_the_files_are_a_persons(tmp_path: Path) -> None:
    """What push writes first it writes in the repository: a name such as .core.py.decouple is nobody's but theirs."""
    world = usual_world(tmp_path)
    world.patch("0004-both", {"torch/x": "x\n", "torch/.x.decouple": "hidden\n"})
    mine = world.source / "torch/.core.py.decouple"
    mine.write_text("mine\n")
    with Stack.open(world.places) as stack:
        stack.push(None)
        assert (world.source / "torch/x").read_text() == "x\n"
        assert (world.source / "torch/.x.decouple").read_text() == "hidden\n"
        stack.pop(None)
    assert mine.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["fifo", "socket"])
@pytest.mark.parametrize("verb", ["push", "status", "refresh", "series"])
def test_a_pipe_in_place_of_a_file_hangs_nothing(tmp_path: Path, kind: str, verb: str) -> None:
    arguments = (verb, "2.6", *{"push": ("-a",), "series": ("--applied",)}.get(verb, ()))
    world = usual_world(tmp_path)
    path = world.source / "torch/core.py"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    else:
        import socket

        with socket.socket(socket.AF_UNIX) as made:
            with contextlib.chdir(path.parent):  # a socket's address is short
                made.bind(path.name)
    environment = {**os.environ, "DECOUPLE_PROJECT": str(world.project)}
    done = subprocess.run(
        [sys.executable, "-m", "decouple", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
    assert path.is_fifo() or path.is_socket()


@pytest.mark.parametrize("name", ["state.json", "journal.json"])
@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"version": 1}', b'{"version": "1"}', b"null"],
    ids=lambda data: repr(data[:20]),
)
def test_a_damaged_file_of_ours_is_named_and_touches_nothing(tmp_path: Path, name: str, data: bytes) -> None:
    world = usual_world(tmp_path)
    with Stack.open(world.places) as stack:
        stack.push(1)
    before = contents(world.source), git(world.source, "rev-parse", "HEAD")
    (world.source / ".git/decouple" / name).write_bytes(data)
    for arguments in (("push", "2.6", "-a"), ("series", "2.6", "--applied"), ("status", "2.6"), ("apply", "2.6")):
        done = decouple(world, *arguments)
        assert done.returncode == 1, (arguments, done.stdout)
        lines = done.stderr.strip().splitlines()
        assert name in lines[0] and lines[1].startswith("  next: ") and len(lines) == 2, done.stderr
    assert (contents(world.source), git(world.source, "rev-parse", "HEAD")) == before


def test_a_lock_of_somebody_elses_stays(tmp_path: Path) -> None:
    """Not older than what was cut off, and of a git that lives: it is that one's."""
    world = usual_world(tmp_path)
    half_way(world, 0.5)
    (world.source / ".git/index.lock").unlink()
    for name in ("index.lock", "HEAD.lock"):
        lock = world.source / ".git" / name
        lock.write_text("")
        with subprocess.Popen(["git", "cat-file", "--batch"], cwd=world.source, stdin=subprocess.PIPE) as living:
            time.sleep(0.1)
            with pytest.raises(DecoupleError, match="another git command"):
                with Stack.open(world.places):
                    pass
            assert lock.exists()
            living.communicate()
        os.utime(lock, (0, 0))  # from before the transaction: no git of ours made it
        with pytest.raises(DecoupleError, match=f"{name}: another git"):
            with Stack.open(world.places):
                pass
        assert lock.exists()
        lock.unlink()
    with Stack.open(world.places) as stack:
        assert stack.recovered == ["an earlier `push` was cut off: finished it"]
