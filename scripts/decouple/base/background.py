"""Work beside a command: downloads, and what waits for other programs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from decouple.base.progress import Progress

Result = TypeVar("Result")


def start_work(work: Callable[[], Result]) -> Future[Result]:
    """Start ``work`` in its own thread; the future has its result or its error.

    An interrupt or an error of the command does not wait for it: the thread ends with the process. So it must leave, at
    any moment, what a kill may leave, and start no program that outlives it for long.
    """
    future: Future[Result] = Future()

    def set_result() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=set_result, daemon=True).start()
    return future


def await_work(work: Future[Result], what: str, progress: Progress) -> Result:
    """Return the result of ``work``, and say while waiting that it is ``what``.

    Raises what it raised.
    """
    if work.done():
        return work.result()
    progress.start(what)
    try:
        return work.result()
    finally:
        progress.finish()
