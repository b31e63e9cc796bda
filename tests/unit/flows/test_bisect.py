"""The patch that breaks a command, and the earlier patches that each one needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.cli import main
from decouple.flows.bisect import bisect_stack, find_touched_objects, make_command_oracle
from decouple.series import check
from decouple.series.dependencies import find_dependencies
from decouple.stack.engine import Stack
from decouple.upstream.readers import GitTree
from tests.support.series import LINES, World, copy_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four patches: a move, an edit of the moved file, an edit of another file, an edit beside the second one."""
    return copy_world(make_world, tmp_path)


def make_world(root: Path) -> World:
    world = World(root, {"torch/cuda/streams.py": LINES, "torch/core.txt": LINES, "setup.py": ""})
    changed = LINES.replace("line 5\n", "line five\n")
    world.patch("0001-move", {}, moves={"torch/cuda/streams.py": "moved/streams.txt"})
    world.patch("0002-edit", {"moved/streams.txt": changed})
    world.patch("0003-other", {"torch/core.txt": LINES.replace("line 9\n", "line nine\n")})
    world.patch("0004-beside", {"moved/streams.txt": changed.replace("line 6\n", "line six\n")})
    world.create()
    return world


def test_a_patch_needs_what_it_stands_on(world: World) -> None:
    series = check.load_series(world.project, "2.6")
    found = find_dependencies(series, GitTree(world.upstream, "HEAD"))
    assert found == {
        "2.6/0001-move.patch": (),
        "2.6/0002-edit.patch": ("2.6/0001-move.patch",),
        "2.6/0003-other.patch": (),
        "2.6/0004-beside.patch": ("2.6/0002-edit.patch",),
    }


def test_check_says_what_each_patch_needs(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    assert main(["check", "2.6", "--depends", "--source", f"{world.upstream}@HEAD"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2.6/0004-beside.patch: 2.6/0002-edit.patch"
    assert main(["check", "2.6", "--depends", "--json", "--source", f"{world.upstream}@HEAD"]) == 0
    assert json.loads(capsys.readouterr().out)["2.6/0004-beside.patch"] == ["2.6/0002-edit.patch"]
    assert main(["check", "2.6", "--depends", "--strict"]) == 2
    assert "--strict" in capsys.readouterr().err


def test_a_git_hooks_variables_lead_to_no_other_repository(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = GitTree(world.upstream, "HEAD").list_paths()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no index"))
    tree = GitTree(world.upstream, "HEAD")
    assert tree.list_paths() == wanted
    assert tree.read("torch/core.txt") == LINES.encode()


def test_bisect_finds_the_patch_and_leaves_the_stack_as_it_was(world: World) -> None:
    code = "import sys; sys.exit('line nine' in open('torch/core.txt').read())"
    with Stack.open(world.places) as stack:
        stack.push(2)
        found = bisect_stack(stack, [make_command_oracle([sys.executable, "-c", code])])
        assert found.first_bad == "2.6/0003-other.patch"
        assert stack.applied == ("2.6/0001-move.patch", "2.6/0002-edit.patch")


def test_a_command_may_have_two_hyphens_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What stood between the two was taken for options of decouple's."""
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    assert main(["bisect", "2.6", "--env", "host", "--", "grep", "-q", "--", "line 9$", "torch/core.txt"]) == 1
    assert capfd.readouterr().out.startswith("2.6/0003-other.patch breaks it")
    assert main(["bisect", "2.6", "--", "grep", "-q", "--", "line 9$", "torch/core.txt"]) == 1
    assert capfd.readouterr().out.startswith("2.6/0003-other.patch breaks it")


def test_a_command_that_fails_on_the_pristine_tree_blames_no_patch(world: World) -> None:
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="pristine tree fails"):
            bisect_stack(stack, [make_command_oracle(["false"])])


def test_a_command_that_cannot_tell_ends_the_search(world: World) -> None:
    code = "import sys; sys.exit(125 if 'line nine' in open('torch/core.txt').read() else 0)"
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="cannot judge this tree") as told:
            bisect_stack(stack, [make_command_oracle([sys.executable, "-c", code])])
        assert told.value.next_step and stack.applied == ()


def test_a_good_series_is_said_to_be_good(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.patch("0001-doc", {"README.md": "A better framework.\n"})
    world.create()
    with Stack.open(world.places) as stack:
        with pytest.raises(DecoupleError, match="the whole series is good"):
            bisect_stack(stack, [make_command_oracle(["true"])])
        assert stack.applied == ()


def test_a_broken_python_file_is_found_by_compiling_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.patch("0001-doc", {"README.md": "A better framework.\n"})
    world.patch("0002-broken", {"torch/cuda/__init__.py": "import torch as\n"})
    world.create()
    with Stack.open(world.places) as stack:
        found = bisect_stack(stack, [make_command_oracle(["true"])])
    assert found.first_bad == "2.6/0002-broken.patch"
    assert "torch/cuda/__init__.py does not compile" in found.said


def built(root: Path) -> World:
    """A tree that CMake configures: a good patch, one that does not compile, one that CMake refuses."""
    cmake = "cmake_minimum_required(VERSION 3.18)\nproject(a C)\nadd_library(a STATIC one.c two.c)\n"
    world = World(
        root, {"CMakeLists.txt": cmake, "one.c": "int one;\n", "two.c": "int two;\n", "other.c": "?\n", "setup.py": ""}
    )
    world.patch("0001-good", {"one.c": "int one, more;\n", "other.c": "??\n"})
    world.patch("0002-c", {"two.c": "int two\n"})
    world.patch("0003-cmake", {"CMakeLists.txt": cmake.replace("two.c", "three.c")})
    world.create()
    return world


CMAKE = "cmake -G Ninja -S . -B build -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >&2"


@pytest.mark.tools("cmake", "ninja", "c++")
@pytest.mark.parametrize(
    ("what", "first_bad", "said"),
    [
        (["--compile"], "2.6/0002-c.patch", "compiling what is touched fails"),
        ([], "2.6/0003-cmake.patch", "configure fails"),
    ],
)
def test_the_cheap_oracles_need_no_command(
    what: list[str],
    first_bad: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    world = built(tmp_path)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    assert main(["bisect", "2.6", "--configure", *what, "--here", CMAKE]) == 1
    out = capfd.readouterr().out
    assert out.startswith(f"{first_bad} breaks it")
    assert said in out


def test_only_what_the_build_compiles_is_compiled(tmp_path: Path) -> None:
    # paths as the build environment has them, an object in a folder of its target, one target that makes it twice
    entries = [
        {"directory": "/in/src/build", "file": "/in/src/torch/a.cpp", "output": "lib/a.o", "command": "c++ -o lib/a.o"},
        {"directory": "/in/src/build", "file": "/in/src/torch/a.cpp", "command": "c++ -o 'x y/a.o' -c torch/a.cpp"},
        {"directory": "/in/src/build", "file": "/in/src/b.cpp", "output": "/in/src/build/b.o", "command": "c++"},
        {"directory": "/in/src/build", "file": "/in/src/torch/not_touched.cpp", "output": "n.o", "command": "c++"},
    ]
    listing = tmp_path / "compile_commands.json"
    listing.write_text(json.dumps(entries))
    assert find_touched_objects(listing, ["torch/a.cpp", "b.cpp", "torch/a.h"]) == ["b.o", "lib/a.o", "x y/a.o"]
    with pytest.raises(DecoupleError, match="no such file"):
        find_touched_objects(tmp_path / "absent.json", ["b.cpp"])


def test_an_environment_that_cannot_be_entered_blames_no_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    world = built(tmp_path)
    monkeypatch.setenv("DECOUPLE_PROJECT", str(world.project))
    monkeypatch.setenv("PATH", str(tmp_path / "no tools"))
    assert main(["bisect", "2.6", "--configure", "--env", "host"]) == 1
    captured = capfd.readouterr()
    assert "the build environment (host) cannot be entered" in captured.err
    assert "breaks it" not in captured.out
