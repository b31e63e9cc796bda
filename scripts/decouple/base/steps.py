"""Name the moments right before something changes on disk.

A test can stop there.

No command stops there: nothing that a person can set reaches this. The tests' package calls
:func:`observe_steps` in a process of its own (``tests/support/stopped.py``), and looks at what a kill there leaves.
"""

from __future__ import annotations

from collections.abc import Callable

_told: Callable[[str], object] | None = None


def mark_step(name: str) -> None:
    """Mark one change that is about to happen."""
    if _told is not None:
        _told(name)


def observe_steps(observer: Callable[[str], object] | None) -> None:
    """Have ``observer`` called with the name of each change that is about to happen.

    None: nobody is called, as at first.
    """
    global _told
    _told = observer
