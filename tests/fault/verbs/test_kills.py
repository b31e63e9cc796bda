"""A slice of ``tests/long/kills.py``: verbs killed at random moments, and four at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import at_once, kills

QUICK = (
    "refresh, a commit",
    "delete",
    "apply, warm",
    "apply, cold",
    "rebase",
    "wheels",
    "index build",
    "index sign",
    "split",
)


@pytest.mark.parametrize("verb", QUICK)
def test_after_a_kill_at_any_moment_it_is_old_or_new(tmp_path: Path, verb: str) -> None:
    tally = kills.run(kills.VERBS[verb], tmp_path / "world", 2, seed=7)
    assert tally.old + tally.new + tally.between == tally.rounds == 2


@pytest.mark.parametrize("what", ["verbs of the stack", "wheels", "index build", "split"])
def test_four_at_once_leave_what_one_would(tmp_path: Path, what: str) -> None:
    told = at_once.run(f"{at_once.FOUR}{what}", tmp_path / "world", 1, seed=7)
    assert told["well"] >= (4 if what == "split" else 1)


def test_the_loop_finds_a_verb_that_writes_in_place(tmp_path: Path) -> None:
    """A command that writes a file bit by bit is found out."""
    import time

    def make(folder: Path) -> kills.Scene:
        def action() -> int:
            with (folder / "file").open("wb", buffering=0) as out:
                for _ in range(50):
                    out.write(b"x" * 10)
                    time.sleep(0.005)
            return 0

        if not (folder / "file").exists():
            (folder / "file").write_bytes(b"old")
        return kills.Scene(action, lambda: kills.files(folder))

    with pytest.raises(kills.Between, match="neither old nor new"):
        kills.run(make, tmp_path / "world", 20)


def test_the_loop_refuses_a_scene_in_which_nothing_changes(tmp_path: Path) -> None:
    with pytest.raises(kills.Between, match="changes nothing"):
        kills.run(lambda folder: kills.Scene(lambda: 0, lambda: kills.files(folder)), tmp_path / "world", 1)
