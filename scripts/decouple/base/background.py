"""Work that goes on beside the rest of a command: a download, while something is compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def start_work(work: Callable[[], Result]) -> Future[Result]:
    """Start ``work`` in a thread of its own; the future has its result, or raises what it raised.

    An interrupt or an error of the command does not wait for it: the thread ends with the process. So it must leave, at
    any moment, what a kill may leave.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
