"""``torch.<name>.nvtx``: names for the vendor's own tool.

Its driver takes them as NVTX does for CUDA's. Without a tool (``range_push``, ``range_pop`` and ``mark`` of the driver
table) they do nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from .. import _C

_depth = threading.local()


def range_push(msg: str) -> int:
    """Begin a range in this thread; returns its depth, 0 for the outermost."""
    depth: int = getattr(_depth, "now", 0)
    _C.range_push(msg)
    _depth.now = depth + 1
    return depth


def range_pop() -> int:
    """End this thread's innermost range; return its depth.

    It is -1 (and does nothing) where there is none.
    """
    depth: int = getattr(_depth, "now", 0) - 1
    if depth < 0:
        return -1
    _C.range_pop()
    _depth.now = depth
    return depth


def mark(msg: str) -> None:
    """Name this moment."""
    _C.mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Put a range around a ``with`` block; ``msg`` is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
