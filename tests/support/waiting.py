"""A lock whose holder learns that somebody waits for it, however long they take to come:

with hold_and_see(folder) as awaited:
    run = pool.submit(what, locks, the, folder)
    assert awaited.wait(60), "it did not wait"
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from decouple.base.files import hold_lock


@contextlib.contextmanager
def hold_and_see(path: Path) -> Iterator[threading.Event]:
    """Hold the lock of ``path``; yields what is set once another thread of this process waits for a lock."""
    awaited, flock = threading.Event(), fcntl.flock

    def tell(handle: int, kind: int) -> None:
        if not kind & fcntl.LOCK_NB:
            awaited.set()
        flock(handle, kind)

    with hold_lock(path), mock.patch.object(fcntl, "flock", tell):
        yield awaited
