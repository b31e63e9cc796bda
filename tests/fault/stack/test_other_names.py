"""A checkout in a folder whose name is no UTF-8: every verb works, and what was cut off is finished."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import decode_path_text, encode_path_text
from decouple.stack.journal import StackState
from tests.fault.stack.test_kill import decouple, local_world, prepare_refresh, steps_of, whole_state
from tests.support.series import contents, usual_world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have names in UTF-8 only")
NAME = os.fsdecode(b"caf\xe9")


def test_refresh_in_such_a_folder_and_the_command_behind_it(tmp_path: Path) -> None:
    world = usual_world(tmp_path / NAME)
    prepare_refresh(world)
    for arguments in (("refresh", "2.6"), ("series", "2.6", "--applied"), ("pop", "2.6", "-a"), ("push", "2.6", "-a")):
        done = decouple(world, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)


def test_a_kill_of_refresh_there_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    whole = usual_world(tmp_path / NAME / "whole")
    prepare_refresh(whole)
    old = whole_state(whole)
    steps = steps_of(whole, tmp_path / "trace", "refresh", "2.6")
    new = whole_state(whole)
    for number in (len(steps) - 6, len(steps) - 4, len(steps) - 1):
        world = usual_world(tmp_path / NAME / str(number))
        prepare_refresh(world)
        assert decouple(world, "refresh", "2.6", KILL_AT=str(number)).returncode == -signal.SIGKILL
        after = decouple(world, "series", "2.6", "--applied")
        assert after.returncode == 0, (steps[number - 1], after.stderr)
        assert whole_state(world) in (old, new)


def test_a_source_in_such_a_folder_is_known_again(tmp_path: Path) -> None:
    upstream = tmp_path / NAME
    world = local_world(tmp_path / "world", upstream)
    cache = {"DECOUPLE_CACHE": str(tmp_path / "cache")}
    first = decouple(world, "apply", "2.6", "--source", f"local:{upstream}", **cache)
    assert first.returncode == 0, first.stderr
    there = contents(world.source)
    for arguments in (
        ("series", "2.6", "--applied"),
        ("apply", "2.6", "--source", f"local:{upstream}"),
        ("pop", "2.6"),
    ):
        done = decouple(world, *arguments, **cache)
        assert done.returncode == 0, (arguments, done.stderr)
    assert decouple(world, "push", "2.6", **cache).returncode == 0 and contents(world.source) == there


@pytest.mark.parametrize("path", ["/a/b", "/caf\u00e9", NAME, f"/x/{NAME}/y", ""])
def test_every_path_comes_back(path: str) -> None:
    encode_path_text(path).encode()
    assert decode_path_text(encode_path_text(path)) == path
    state = StackState("2.6", "a" * 40, "b" * 40, source={"source": path})
    assert StackState.from_json(state.to_json()) == state


def test_what_nobody_wrote_is_refused() -> None:
    state = StackState("2.6", "a" * 40, "b" * 40, source={"source": NAME}).to_json()
    with pytest.raises(DecoupleError, match="not a state"):
        StackState.from_json(state.replace("\\u0000", "\\u0000x"))
