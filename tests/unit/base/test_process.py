"""Commands with a log, and how long they may take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.process import limit_time, run_logged


@pytest.mark.tools("pgrep")
def test_time_is_over_for_a_command_and_for_what_it_started(tmp_path: Path) -> None:
    sleeper = "sleep 321.5 & sleep 321.5"
    with (
        pytest.raises(DecoupleError, match=r"smoke.*0\.01 minutes"),
        limit_time(0.01, "smoke", "again"),
    ):
        run_logged(["sh", "-c", sleeper], log=tmp_path / "log", what="sleeping")
    assert subprocess.run(["pgrep", "-f", "^sleep 321.5"], capture_output=True).stdout == b""


def test_what_is_done_in_time_is_left_alone(tmp_path: Path) -> None:
    with limit_time(1, "smoke", "again"):
        run_logged(["true"], log=tmp_path / "log", what="nothing")


def test_an_interrupt_by_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), limit_time(1, "smoke", "again"):
        raise KeyboardInterrupt
