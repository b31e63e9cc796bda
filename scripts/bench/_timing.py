"""One run of something, in wall-clock and processor seconds."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a program is compiled once, not at each start


@dataclass(frozen=True)
class Sample:
    """One run: wall-clock and processor seconds of all its processes."""

    wall: float
    cpu: float


def timed(action: Callable[[], object]) -> Sample:
    """Run ``action``; its wall-clock time, and the processor time of the child processes that it waited for."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Sample(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
