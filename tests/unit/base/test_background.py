"""Work beside a command: both go on at once, and an error reaches whoever waits."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from decouple.base.background import start_work
from decouple.base.errors import DecoupleError


def test_both_go_on_at_once() -> None:
    other = threading.Event()
    future = start_work(lambda: other.wait(20))
    other.set()  # never reached, were the work done first
    assert future.result(timeout=20) is True


def test_its_error_is_raised_where_the_result_is_asked_for() -> None:
    def fail() -> None:
        raise DecoupleError("the host does not answer", next_step="try again")

    with pytest.raises(DecoupleError, match="does not answer"):
        start_work(fail).result(timeout=20)


def test_a_command_that_fails_does_not_wait_for_it(tmp_path: Path) -> None:
    program = (
        "import time\nfrom decouple.base.background import start_work\n"
        "start_work(lambda: time.sleep(600))\nraise SystemExit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=60).returncode == 3
