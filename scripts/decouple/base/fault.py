"""Injected stops, so that tests can kill a run at each write and look at what is left.

Code that changes something on disk calls :func:`step` right before it does. With ``DECOUPLE_KILL_AT=N`` the
N-th call of the process ends it with SIGKILL, as a power cut would; with ``DECOUPLE_TRACE_STEPS=FILE`` each
call's name is appended to FILE, so that a test knows how many there are. Without these variables a call costs
one comparison.
"""

from __future__ import annotations

import os
import signal

_kill_at = int(os.environ.get("DECOUPLE_KILL_AT", "0"))
_trace = os.environ.get("DECOUPLE_TRACE_STEPS")
_active = bool(_kill_at or _trace)
_count = 0


def step(name: str) -> None:
    """Mark one change that is about to happen."""
    global _count
    if not _active:
        return
    _count += 1
    if _trace:
        with open(_trace, "a", encoding="utf-8") as out:  # noqa: PTH123 - pathlib would import more than a probe should
            out.write(f"{name}\n")
    if _count == _kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
