"""Threads that run programs side by side and end them when this process is interrupted or terminated.

What runs in a namespace of its own (``unshare --fork``, util-linux) ignores SIGINT and SIGTERM, so a compiler would
outlive the command that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from decouple.base.program_output import make_english_variables

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkerPool:
    """A fixed number of threads, and the programs that they run at the moment."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``function`` of each item, in their order.

        Raises what a call raised, and KeyboardInterrupt on SIGINT and SIGTERM (in the main thread, as Python has it);
        then every program that `run_program` started has ended.
        """
        with interrupt_on_sigterm(), ThreadPoolExecutor(self._workers) as pool:
            try:
                return [future.result() for future in [pool.submit(function, item) for item in items]]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._end_programs()
                raise

    def run_program(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program that reads nothing, in one of the threads, and return its output as text.

        Raises OSError when it cannot be started.
        """
        with self._lock:
            if self._ended:
                return subprocess.CompletedProcess(command, -signal.SIGKILL, "", "interrupted")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=make_english_variables(),
                start_new_session=True,  # a process group of its own, which is ended whole
            )
            self._running.add(process)
        try:
            output, errors = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def _end_programs(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as SIGINT does; without effect outside the main thread."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGTERM, stop) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, previous)
