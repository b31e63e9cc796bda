"""`git status` of an applied tree tells what a person did, also behind a build that was killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from decouple.build import tree_status
from decouple.build.tree_status import keep_clean
from decouple.flows import shell
from decouple.flows.shell import ShellRequest
from tests.support.files import write_files
from tests.support.series import World, git, usual_world

KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from decouple.build.tree_status import keep_clean
tree = Path(sys.argv[1])
with keep_clean(tree, "stage1") as held:
    (tree / "torch/lib").mkdir(parents=True)
    (tree / "torch/lib/libtorch.so").write_bytes(b"x")
    (tree / "torch/version.py").write_text("")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return usual_world(tmp_path / "world")


def status(world: World) -> str:
    return git(world.source, "status", "--porcelain")


def killed(world: World) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, str(world.source)], check=False)
    assert done.returncode == -9


def soon(true: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 60
    while not true() and time.monotonic() < ends:
        time.sleep(0.05)
    return true()


def test_a_killed_build_leaves_it_as_it_was(world: World) -> None:
    (world.source / "mine.c").write_text("int mine;\n")
    killed(world)
    assert soon(lambda: status(world) == "?? mine.c"), status(world)


def test_what_a_killed_build_started_is_waited_for(world: World) -> None:
    script = KILLED.replace("    os.kill", "    subprocess.Popen(['sleep', '2'], pass_fds=held)\n    os.kill")
    subprocess.run([sys.executable, "-P", "-c", script, str(world.source)], check=False)
    time.sleep(0.5)
    (world.source / "torch/lib/libc10.so").write_bytes(b"of what goes on")
    (world.source / "torch/late.pyi").write_bytes(b"of what goes on")
    assert tree_status.list_new_files(world.source) == []
    assert soon(lambda: status(world) == ""), status(world)


def test_what_a_kill_of_all_left_is_excluded_behind_the_next_build(world: World) -> None:
    (world.source / "mine.c").write_text("int mine;\n")
    (world.source / ".git/unknown-before-stage1").write_text("mine.c")
    (world.source / "torch/version.py").write_text("")
    with keep_clean(world.source, "stage1"):
        (world.source / "torch/other.pyi").write_text("")
    assert status(world) == "?? mine.c"
    assert not list((world.source / ".git").glob("unknown-before-*"))


def test_the_note_of_a_killed_test_hides_no_file_that_came_later(world: World) -> None:
    """It waited for another run under the same label: "stage 1: up to date", without the new source."""
    tree = world.source
    (tree / ".git/unknown-before-suites-a-gpu").write_text("mine.c")
    for name in ("mine.c", "new.cu", "new.o"):
        (tree / name).write_text("")
    assert tree_status.list_new_files(tree) == ["mine.c", "new.cu"]
    with keep_clean(tree, "stage1"):
        pass
    assert status(world) == "?? mine.c\n?? new.cu"
    assert not list((tree / ".git").glob("*unknown-before-*"))


def test_of_two_builds_at_once_each_hides_what_it_made(world: World) -> None:
    """Stage 2 of `smoke` and of the usual build compile one tree; the first to end took the note of both."""
    with keep_clean(world.source, "stage2"):
        with keep_clean(world.source, "stage2"):
            (world.source / "first.o").write_text("")
        (world.source / "second.o").write_text("")
        assert tree_status.list_new_files(world.source) == []
    assert status(world) == ""


def test_a_build_that_ends_leaves_no_process(world: World) -> None:
    with keep_clean(world.source, "stage1"):
        assert soon(lambda: f"tree_status {world.source} unknown-before-stage1-".encode() in running())
    assert f"tree_status {world.source}".encode() not in running()


def running() -> bytes:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return b"\n".join(found)


def test_a_source_that_a_person_adds_while_a_build_runs_stays_visible(world: World) -> None:
    """It was excluded with all that the build made: `git status` and the next build's digest had nothing of it."""
    tree, said = world.source, list[str]()
    added = ["aten/new/kernel.cpp", "aten/new/CMakeLists.txt", "torch/new.py"]
    added += [f"torch/new.{kind}" for kind in ("fbs", "ld", "lds", "proto", "template", "thrift")]
    generated = [
        "torch/include/ATen/Config.h",
        "torch/csrc/autograd/generated/Functions.cpp",
        "torch/version.py",
        "aten/new/kernel.o",
        "torch/lib/libc10.so",
        "torch/lib/cmake/dnnl/dnnl-config.cmake",
        "torch/return_types.pyi",
    ]
    with keep_clean(tree, "stage1", say=said.append):
        write_files(tree, dict.fromkeys((*added, *generated), ""))
        (tree / "later").mkdir()
    assert tree_status.list_new_files(tree) == sorted(added)
    told = "aten/new/CMakeLists.txt, aten/new/kernel.cpp, torch/new.fbs and 6 more"
    assert said == [f"stage1: came to {tree} meanwhile, and counts from now on: {told}"]
    (tree / "later/mine.cpp").write_text("in a folder that the build left empty")
    (tree / "torch/lib/mine.cpp").write_text("in a folder that the build made")
    assert {*tree_status.list_new_files(tree)} - {*added} == {"later/mine.cpp", "torch/lib/mine.cpp"}


def test_what_a_build_puts_into_a_folder_that_the_one_before_left_empty_is_no_edit(world: World) -> None:
    """Stage 1 takes back what it installed, and the folder stays: its next programs were edits of every wheel."""
    folder = world.source / "torch/bin"
    folder.mkdir(parents=True)
    with keep_clean(world.source, "stage1"):
        (folder / "protoc").write_text("")
    assert tree_status.list_new_files(world.source) == []


def test_works_that_end_together_exclude_what_each_of_them_made(world: World) -> None:
    patterns = [f"/torch/lib/lib{number}.so" for number in range(64)]
    with ThreadPoolExecutor(16) as works:
        list(works.map(lambda pattern: tree_status.exclude_patterns(world.source, [pattern]), patterns))
    assert set(patterns) <= set((world.source / ".git/info/exclude").read_text().splitlines())


def test_a_command_in_the_environment_leaves_it_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        class places:
            tree = world.source

        def name_places(self) -> dict[str, str]:
            return {"tree": str(world.source)}

        def argv(self, command: list[str], variables: dict[str, str], start: str) -> list[str]:
            return ["env", "-C", start, *command]

    monkeypatch.setattr(shell, "_open_shell", lambda request, listener: (Here(), {}))
    asked = ShellRequest(
        world.project,
        "2.6",
        env="host",
        command="mkdir -p torch/lib test/__pycache__; touch torch/lib/a.so test/__pycache__/a.pyc x",
    )
    assert shell.run_shell(asked) == 0
    assert (world.source / "torch/lib/a.so").exists()
    assert status(world) == ""


def test_a_clone_of_a_person_is_not_written_to(tmp_path: Path, world: World) -> None:
    git(tmp_path, "clone", "-q", str(world.upstream), "theirs")
    assert not tree_status.is_applied(tmp_path / "theirs") and tree_status.is_applied(world.source)
