"""Let one run at a time work in a build directory."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Hold an advisory lock (``flock``) on ``folder``.

    CMake and ninja hold none of their own. Where another run has it, this one says so and waits. It goes with the
    process. A file system without locks on folders, as some of a network are, is used without.
    Raises OSError where the folder is not there.
    """
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"wrapped_cmake: another run works in {folder}; waits for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
