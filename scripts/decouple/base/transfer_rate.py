"""Limits for a slow server: seconds to the head of an answer, rate of its body.

The head has a total time, the body a lowest rate.

A socket's own time-out is per piece, so one byte every half minute would keep a run busy for ever.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HEAD_SECONDS = 90.0
"""Until the last header of an answer, redirects and repeated attempts of one request included."""
GRACE_SECONDS = 20.0
"""Before the rate of a body is looked at."""
FLOOR = 1024
"""Bytes a second that a body must keep up on average; a modem of 1990 did."""


class SlowServerError(Exception):
    """A server that is too slow, in a few words; the caller names the address."""


class RateMeter:
    """A count of what came of a body. ``clock`` in seconds is for tests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started, self._received = clock(), 0

    def count_bytes(self, size: int) -> None:
        """Count ``size`` more bytes. Raises SlowServerError."""
        self._received += size
        elapsed = self._clock() - self._started
        if elapsed > GRACE_SECONDS and self._received < elapsed * FLOOR:
            raise SlowServerError(f"{self._received} bytes in {elapsed:.0f} s, less than {FLOOR} a second")


def run_within(seconds: float, work: Callable[[], T]) -> T:
    """Return the value of ``work()``, or raise its exception.

    Raises SlowServerError when it takes longer than ``seconds``; it is then left behind on a thread of its own,
    which ends with the process.
    """
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def put_answer() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=put_answer, daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise SlowServerError(f"no whole answer within {seconds:.0f} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # it is a T where there is no error
