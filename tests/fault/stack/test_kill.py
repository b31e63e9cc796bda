"""kill -9 at every write of push, pop, refresh and apply, then the next command: old state or new, never between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decouple.base.git import Repository
from decouple.stack import worktree
from decouple.stack.engine import Stack
from decouple.stack.journal import Journal, Transaction
from decouple.stack.trees import Change, compare_trees
from tests.support import kills
from tests.support.series import World, contents, git, tree_of, usual_world

#: A user's edit in a file that no patch touches: it must be there, untouched, after every kill.
MINE = "mine, not committed\n"


def decouple(world: World, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.stopped", "decouple", *arguments],
        cwd=kills.ROOT,
        env={**os.environ, "DECOUPLE_PROJECT": str(world.project), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def steps_of(world: World, trace: Path, *arguments: str) -> list[str]:
    """Run it to the end; returns the names of the writes it went through."""
    done = decouple(world, *arguments, TRACE_STEPS=str(trace))
    assert done.returncode == 0, done.stderr
    return trace.read_text().splitlines()


def project_state(world: World) -> dict[str, bytes]:
    found = {
        str(path.relative_to(world.project)): path.read_bytes()
        for folder in ("series", "patches")
        for path in (world.project / folder).rglob("*")
        if path.is_file()
    }
    assert not [name for name in found if name.endswith(".part") and "/." not in name]
    return {name: data for name, data in found.items() if not name.endswith(".part")}


def whole_state(world: World) -> tuple[str, dict[str, bytes], dict[str, bytes], str]:
    """HEAD, work tree, the project's files, and what git thinks is edited."""
    return (
        git(world.source, "rev-parse", "HEAD"),
        contents(world.source),
        project_state(world),
        git(world.source, "status", "--porcelain", "-uno"),
    )


def prepare_push(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(1)
    (world.source / "README.md").write_text(MINE)


def prepare_pop(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "README.md").write_text(MINE)


def prepare_refresh(world: World) -> None:
    with Stack.open(world.places) as stack:
        stack.push(None)
    core = world.source / "torch/core.py"
    core.write_text(core.read_text().replace("line 40\n", "line forty\n"))
    git(world.source, "commit", "-qam", "A new patch")
    (world.source / "README.md").write_text(MINE)


CASES: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "push": (prepare_push, ("push", "2.6", "-a")),
    "pop": (prepare_pop, ("pop", "2.6", "2")),
    "refresh": (prepare_refresh, ("refresh", "2.6")),
}


@pytest.mark.parametrize("verb", CASES)
def test_kill_at_every_write(verb: str, tmp_path: Path) -> None:
    prepare, arguments = CASES[verb]
    whole = usual_world(tmp_path / "whole")
    prepare(whole)
    old = whole_state(whole)
    steps = steps_of(whole, tmp_path / "trace", *arguments)
    new = whole_state(whole)
    assert old != new
    seen = set()
    for number in range(1, len(steps) + 1):
        world = usual_world(tmp_path / str(number))
        prepare(world)
        killed = decouple(world, *arguments, KILL_AT=str(number))
        assert killed.returncode == -signal.SIGKILL, (number, steps[number - 1], killed.stderr)
        world.project = world.project.rename(tmp_path / str(number) / "renamed")
        after = decouple(world, "series", "2.6", "--applied")  # any next command
        assert after.returncode == 0, (number, steps[number - 1], after.stderr)
        state = whole_state(world)
        assert state in (old, new), f"killed before {steps[number - 1]!r} (step {number})"
        assert (world.source / "README.md").read_text() == MINE
        seen.add("new" if state == new else "old")
        # and the command itself, run again, ends where it would have ended
        again = decouple(world, *arguments) if state == old else None
        assert again is None or (again.returncode == 0 and whole_state(world) == new), again
    assert seen == {"old", "new"}


def test_kill_at_every_write_of_apply(tmp_path: Path) -> None:
    """From nothing: source folder to applied tree. What is left over is finished by running the same command again."""
    upstream = tmp_path / "upstream"
    cache = {"DECOUPLE_CACHE": str(tmp_path / "cache-whole")}
    whole = local_world(tmp_path / "whole", upstream)
    arguments = ("apply", "2.6", "--source", f"local:{upstream}")
    trace = tmp_path / "trace"
    done = decouple(whole, *arguments, TRACE_STEPS=str(trace), **cache)
    assert done.returncode == 0, done.stderr
    new = (git(whole.source, "rev-parse", "HEAD"), contents(whole.source))
    steps = trace.read_text().splitlines()
    assert len(steps) > 10
    for number in range(1, len(steps) + 1):
        world = local_world(tmp_path / str(number), upstream)
        cache = {"DECOUPLE_CACHE": str(tmp_path / f"cache-{number}")}
        killed = decouple(world, *arguments, KILL_AT=str(number), **cache)
        assert killed.returncode == -signal.SIGKILL
        if world.source.exists():  # what is there is a whole tree, never half of one
            assert git(world.source, "rev-parse", "HEAD") in (new[0], base_of(world))
            assert decouple(world, "series", "2.6", "--applied").returncode == 0
        again = decouple(world, *arguments, **cache)
        assert again.returncode == 0, (number, steps[number - 1], again.stderr)
        assert (git(world.source, "rev-parse", "HEAD"), contents(world.source)) == new
        assert [path.name for path in world.source.parent.iterdir()] == ["src"]


def local_world(root: Path, upstream: Path) -> World:
    """A world whose tree is not made, with its upstream as a plain folder."""
    import shutil

    world = usual_world(root)
    shutil.rmtree(world.source)
    world.source.parent.rmdir()
    if not upstream.exists():
        upstream.mkdir()
        git(world.upstream, "--work-tree", str(upstream), "checkout", "-q", "-f", "HEAD", "--", ".")
    (world.project / "series/2.6.toml").write_text(
        'schema = 1\nrelease = "2.6"\nversion = "2.6.0"\ntag = "v2.6.0"\n'
        f'commit = "{"1" * 40}"\n\n[[source]]\nprovider = "git"\nurl = "file:///nonexistent"\n\n'
        '[toolchain]\npython = ["3.11"]\ncuda = "12.4"\nlibraries = []\ngcc = "9.3.1"\ncuda_max_gcc = 13\n'
    )
    return world


def base_of(world: World) -> str:
    return git(world.source, "rev-parse", "refs/decouple/base")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return usual_world(tmp_path)


def half_way(world: World, share: float, torn: str = "") -> tuple[Stack, str]:
    """A push -a that was cut off in git's hands: journal written, some files moved, perhaps one cut short."""
    with Stack.open(world.places) as stack:
        journal = stack.journal
        stack.push(None)
        target = stack.state
        stack.pop(None)
        old = stack.state
        head = git(world.source, "rev-parse", "HEAD")
        journal._stage_files(Transaction("push", target), head)
        changes = compare_trees(stack.repository, head, target.head)
        for change in changes[: round(len(changes) * share)]:
            path = world.source / change.path
            if change.new is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(stack.repository.run("cat-file", "blob", change.new.id))
        if torn:
            (change,) = (change for change in changes if change.path == torn)
            assert change.new
            data = stack.repository.run("cat-file", "blob", change.new.id)
            path = world.source / torn
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data[: len(data) // 2])
        (world.source / ".git/index.lock").write_bytes(b"half an index")
    assert old.head == head
    return stack, target.head


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_git_killed_in_the_middle_of_the_work_tree(world: World, share: float) -> None:
    """A power cut while git moves files: the next command goes on to the new state."""
    _, target = half_way(world, share)
    with Stack.open(world.places) as stack:
        assert stack.recovered == ["an earlier `push` was cut off: finished it"]
        assert git(world.source, "rev-parse", "HEAD") == target
        assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")
        assert git(world.source, "status", "--porcelain") == ""
    with Stack.open(world.places) as stack:
        assert stack.recovered == []


def test_a_file_cut_short_is_written_whole(world: World) -> None:
    _, target = half_way(world, 0, torn="torch/core.py")
    with Stack.open(world.places) as stack:
        assert stack.state.head == target
        assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")


def test_nothing_moved_yet_is_dropped(world: World) -> None:
    half_way(world, 0)
    (world.source / ".git/index.lock").unlink()
    with Stack.open(world.places) as stack:
        assert stack.recovered == ["an earlier `push` was cut off before it changed anything: dropped"]
        assert stack.applied == ()


def test_an_edit_made_after_the_cut_is_saved(world: World) -> None:
    half_way(world, 0.5)
    (world.source / "torch/core.py").write_text("written between the power cut and the next command\n")
    earlier = world.source.parent / "rescued/torch/core.py"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("saved by the command before\n")
    saved = earlier.with_name("core.py.1")
    with Stack.open(world.places) as stack:
        said = f"torch/core.py had other content than either state: saved in {saved}"
        assert said in stack.recovered
    assert earlier.read_text() == "saved by the command before\n"
    assert saved.read_text() == "written between the power cut and the next command\n"
    assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")


def test_two_commands_at_once_wait_for_each_other(world: World) -> None:
    environment = {**os.environ, "DECOUPLE_PROJECT": str(world.project)}
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "decouple", "push", "2.6", "1"], env=environment, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    for process in both:
        assert process.stdout
        process.stdout.close()
    with Stack.open(world.places) as stack:
        assert stack.applied == ("2.6/0001-relocate.patch", "2.6/0002-hooks.patch")


def test_a_git_that_outlives_a_killed_run_keeps_the_lock(world: World) -> None:
    """The lock is inherited by every git we start, so nobody recovers under the hands of one that still writes."""
    import fcntl

    journal = Journal(Repository(world.source))
    with journal.open_session():
        assert journal.repository.held
        slow = subprocess.Popen(["sleep", "30"], pass_fds=journal.repository.held)
    with (world.source / ".git/decouple/lock").open("a") as handle:
        with pytest.raises(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        slow.kill()
        slow.wait()
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_lock_of_a_git_that_was_killed_before_it_moved_anything_is_not_in_the_way(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")

    def cut(repository: Repository, old: str, new: str) -> list[Change]:
        (repository.git_dir / "index.lock").touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    def killed() -> int:
        worktree.move_worktree = cut
        with Stack.open(world.places) as stack:
            stack.push(None)
        return 0

    assert kills.start(killed, tmp_path / "said").wait() == -signal.SIGKILL
    assert (world.source / ".git/index.lock").exists()
    with Stack.open(world.places) as stack:
        assert not stack.applied
        stack.push(None)
    assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("verb", [["add", "2.6", "torch/fresh.py"], ["status", "2.6"]])
def test_a_git_killed_at_the_index_outside_of_a_move_leaves_no_lock(verb: list[str], tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    with Stack.open(world.places) as stack:
        stack.push(None)
    (world.source / "torch/fresh.py").write_text("fresh = 1\n")
    lock, ask = world.source / ".git/index.lock", Repository.try_run

    def cut(repository: Repository, *words: str, **how: Any) -> Any:
        if words[0] in ("add", "update-index"):
            lock.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ask(repository, *words, **how)

    def killed() -> int:
        Repository.try_run = cut
        return kills.command(*verb, DECOUPLE_PROJECT=str(world.project))()

    assert kills.start(killed, tmp_path / "said").wait() == -signal.SIGKILL
    assert lock.exists()
    assert decouple(world, "pop", "2.6").returncode == 0
    assert not lock.exists()
    assert decouple(world, "push", "2.6").returncode == 0
    assert decouple(world, *verb).returncode == 0


def test_a_git_killed_at_our_own_refs_leaves_no_lock(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    (world.source / ".git/refs/decouple/next.lock").touch()
    done = decouple(world, "push", "2.6", "-a")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["src", "link", "link/../src"])
def test_a_git_at_work_is_seen_by_whatever_path_the_tree_is_named(tmp_path: Path, path: str) -> None:
    """Its lock was taken for a killed one's where ``build`` is a link to another disk."""
    git(tmp_path, "init", "-q", "src")
    (tmp_path / "link").symlink_to("src")
    tree = tmp_path / path
    assert not worktree.has_git_process(tree / ".git", tree)
    command = ["git", "cat-file", "--batch-check"]
    with subprocess.Popen(command, cwd=tmp_path / "src", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as at_work:
        assert at_work.stdin and at_work.stdout
        at_work.stdin.write(b"HEAD\n")
        at_work.stdin.flush()
        assert at_work.stdout.readline() == b"HEAD missing\n"
        seen = worktree.has_git_process(tree / ".git", tree)
        at_work.stdin.close()
    assert seen


def test_another_programs_lock_stays_where_no_git_of_ours_was_killed(tmp_path: Path) -> None:
    world = usual_world(tmp_path / "world")
    lock = world.source / ".git/index.lock"
    lock.touch()
    (world.source / "torch/fresh.py").write_text("fresh = 1\n")
    assert decouple(world, "status", "2.6").returncode in (0, 1)
    assert decouple(world, "push", "2.6").returncode == 1
    assert lock.exists()
