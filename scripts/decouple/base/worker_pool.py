"""Run programs side by side in threads.

They are ended when this process is interrupted or terminated. What runs in a namespace of its own (``unshare --fork``,
util-linux) ignores SIGINT and SIGTERM, so a compiler would outlive the command that started it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from decouple.base.program_output import make_english_variables

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
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

        Raises what a call raised, and KeyboardInterrupt on SIGINT, SIGTERM and SIGHUP (in the main thread, as Python
        has it); then every program that `run_program` started has ended.
        """
        with _note_signals() as noted, ThreadPoolExecutor(self._workers) as pool:
            futures = [pool.submit(function, item) for item in items]
            while True:
                # Asked again and again: an exception out of a handler could leave a lock of the futures held.
                done, pending = wait(futures, timeout=0.1, return_when=FIRST_EXCEPTION)
                failed = [future for future in done if future.exception()]
                if noted or failed:
                    pool.shutdown(wait=False, cancel_futures=True)
                    self._end_programs()
                if noted or failed or not pending:
                    break
        if noted:
            raise KeyboardInterrupt
        return [future.result() for future in failed or futures]

    def run_program(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program that reads nothing in one of the threads.

        Returns its output as text. Raises OSError when it cannot be started.
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
def _note_signals() -> Iterator[list[int]]:
    """Yield a list to which SIGINT, SIGTERM and SIGHUP add their number.

    It has no effect outside the main thread. One that is ignored (SIGINT of a shell's background job, SIGHUP under
    ``nohup``) stays ignored.
    """
    noted: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    numbers = [number for number in _ENDING if main and signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, lambda number, _frame: noted.append(number)) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
