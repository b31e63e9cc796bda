"""Programs that run side by side, and what an interrupt does to them."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from decouple.base.worker_pool import WorkerPool


def test_results_come_in_the_order_of_the_items() -> None:
    pool = WorkerPool(2)
    said = pool.map(lambda word: pool.run_program(["printf", word]).stdout, ["a", "b", "c"])
    assert said == ["a", "b", "c"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_programs_that_ignore_it(tmp_path: Path, number: signal.Signals) -> None:
    pool = WorkerPool(2)
    deaf = ["sh", "-c", 'trap "" INT TERM HUP; echo $$ >> "$0"; while :; do sleep 0.1; done', str(tmp_path / "started")]

    def interrupt() -> None:
        while not (tmp_path / "started").exists() or len((tmp_path / "started").read_text().split()) < 2:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    hung_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one of nohup that
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.map(lambda _: pool.run_program(deaf), range(5))
    finally:
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGHUP, hung_up)
    started = (tmp_path / "started").read_text().split()
    assert len(started) == 2, "none of the three that waited has begun"
    assert [pid for pid in started if subprocess.run(["kill", "-0", pid], capture_output=True).returncode == 0] == []


def test_a_failure_ends_what_runs_beside_it() -> None:
    pool = WorkerPool(2)

    def run(word: str) -> None:
        if pool.run_program(["sh", "-c", word]).returncode == 3:
            raise ValueError(word)

    began = time.monotonic()
    with pytest.raises(ValueError, match="exit 3"):
        pool.map(run, ["sleep 60", "exit 3"])
    assert time.monotonic() - began < 30
