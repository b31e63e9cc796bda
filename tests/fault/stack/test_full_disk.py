"""A full disk, on a real file system that is full: one clear line, and old or new state once there is space."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.stack.test_kill import decouple
from tests.support.series import LINES, contents, git, tree_of, usual_world
from tests.support.small_disk import fill, small_disk

__all__ = ["small_disk"]  # a fixture


@pytest.mark.parametrize("leave", [0, 64 << 10, 256 << 10, 1 << 20, 2 << 20])
@pytest.mark.parametrize("verb", ["push", "refresh"])
def test_full_disk(small_disk: Path, verb: str, leave: int) -> None:
    world = usual_world(small_disk / "world")
    noise = "".join(f"{(number * 2654435761) % 2**32:08x} {number}\n" for number in range(100_000))  # 1.5 MB
    if verb == "push":
        world.patch("0004-big", {"torch/big.py": noise})
    else:
        assert decouple(world, "push", "2.6", "-a").returncode == 0
        (world.source / "torch/core.py").write_text(LINES + noise)
    old_head, old = git(world.source, "rev-parse", "HEAD"), contents(world.source)
    before = (world.project / "patches/2.6/0003-split.patch").read_bytes()
    filler = fill(small_disk, leave)
    arguments = ("push", "2.6", "-a") if verb == "push" else ("refresh", "2.6")
    failed = decouple(world, *arguments)
    filler.unlink()
    if failed.returncode:
        lines = failed.stderr.strip().splitlines()
        assert lines[0].startswith("decouple: ") and len(lines) <= 2, failed.stderr
        assert "Traceback" not in failed.stderr
    lock = world.source / ".git/index.lock"
    assert not lock.exists() or lock.stat().st_size >= 0
    assert decouple(world, "series", "2.6", "--applied").returncode == 0
    if git(world.source, "rev-parse", "HEAD") == old_head:
        assert contents(world.source) == old
        assert (world.project / "patches/2.6/0003-split.patch").read_bytes() == before
    done = decouple(world, *arguments)
    assert done.returncode == 0 or "everything is applied" in done.stdout, done.stderr
    assert git(world.source, "status", "--porcelain", "-uno") == ""
    assert tree_of(world.source) == git(world.source, "rev-parse", "HEAD^{tree}")
    assert git(world.source, "rev-parse", "HEAD") != old_head
