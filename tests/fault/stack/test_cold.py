"""``apply`` from nothing: two at once, and one after another that was killed while its git still ran."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fault.stack.test_kill import local_world
from tests.support.series import World, contents, git


def started(world: World, upstream: Path, cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "DECOUPLE_PROJECT": str(world.project), "DECOUPLE_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-m", "decouple", "apply", "2.6", "--source", f"local:{upstream}"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_of_two_at_once_the_second_waits(tmp_path: Path) -> None:
    world = local_world(tmp_path / "world", tmp_path / "upstream")
    runs = [started(world, tmp_path / "upstream", tmp_path / "cache") for _ in range(3)]
    said = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    assert sum("src made" in out for out, _ in said) == 1
    assert git(world.source, "status", "--porcelain") == ""
    assert [path.name for path in world.source.parent.iterdir()] == ["src"]


@pytest.mark.parametrize("wait", [0.3, 0.6, 0.9])
def test_a_kill_at_any_moment_and_another_at_once(tmp_path: Path, wait: float) -> None:
    """The killed one's git may still be writing: the next run waits for it, because it holds the lock as well."""
    world = local_world(tmp_path / "world", tmp_path / "upstream")
    for number in range(400):
        (tmp_path / f"upstream/file{number}").write_text("x" * 1000)
    first = started(world, tmp_path / "upstream", tmp_path / "cache")
    time.sleep(wait)
    first.send_signal(signal.SIGKILL)
    second = started(world, tmp_path / "upstream", tmp_path / "cache")
    first.communicate()
    _, told = second.communicate(timeout=120)
    assert second.returncode == 0, told
    assert len(contents(world.source)) > 400
    assert git(world.source, "status", "--porcelain") == ""
