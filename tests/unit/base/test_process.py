"""Commands with a log, and how long they may take."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.base.process import limit_time, run_logged


def assert_sleepers_end(marker: str) -> None:
    """Wait until no ``sleep`` of ``marker`` seconds runs: what a signal was sent to ends when it is its turn."""
    waiting = ["timeout", "20", "sh", "-c", f"while pgrep -f '^sleep {marker}$'; do sleep 0.1; done"]
    assert subprocess.run(waiting, capture_output=True).returncode == 0


@pytest.mark.tools("pgrep")
def test_time_is_over_for_a_command_and_for_what_it_started(tmp_path: Path) -> None:
    marker = f"321.{os.getpid()}"  # a duration in seconds that no other sleep on the machine has
    sleeper = f"sleep {marker} & sleep {marker}"
    with (
        pytest.raises(DecoupleError, match=r"smoke.*0\.01 minutes"),
        limit_time(0.01, "smoke", "again"),
    ):
        run_logged(["sh", "-c", sleeper], log=tmp_path / "log", what="sleeping")
    assert_sleepers_end(marker)


def test_a_program_is_to_be_installed_only_where_it_is_not_there(tmp_path: Path) -> None:
    def fail(program: str, folder: Path) -> str:
        with pytest.raises(DecoupleError) as caught:
            run_logged([program], log=tmp_path / "log", what="work", cwd=folder)
        return str(caught.value)

    gone, locked = tmp_path / "gone", tmp_path / "locked"
    locked.touch(0o644)
    assert fail("no-such-tool", tmp_path) == "work: no-such-tool: No such file or directory (install no-such-tool)"
    assert fail("true", gone) == f"work: {gone}: No such file or directory"
    assert fail(str(locked), tmp_path) == f"work: {locked}: Permission denied"


def test_what_is_done_in_time_is_left_alone(tmp_path: Path) -> None:
    with limit_time(1, "smoke", "again"):
        run_logged(["true"], log=tmp_path / "log", what="nothing")


def test_an_interrupt_by_the_user_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), limit_time(1, "smoke", "again"):
        raise KeyboardInterrupt


@pytest.mark.tools("pgrep")
def test_what_another_thread_runs_ends_with_the_program(tmp_path: Path) -> None:
    """An error, or an interrupt, reaches the main thread alone."""
    marker = f"322.{os.getpid()}"
    program = (
        "import sys, threading, time\n"
        "from pathlib import Path\n"
        "from decouple.base.process import run_logged\n"
        "log = Path(sys.argv[1])\n"
        f"argv = ['sh', '-c', 'echo there; sleep {marker} & sleep {marker}']\n"
        "work = lambda: run_logged(argv, log=log, what='download')\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "while not log.exists() or 'there' not in log.read_text(): time.sleep(0.01)\n"
        "raise SystemExit(3)\n"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "log")]
    assert subprocess.run(argv, cwd=tmp_path, timeout=60).returncode == 3
    assert_sleepers_end(marker)
