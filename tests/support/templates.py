"""Folders that cost many processes: made once in a run, copied for each test."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Made = TypeVar("Made")


@functools.cache
def make_once(make: Callable[[Path], Made]) -> Made:
    """What ``make`` returns for a folder that stays until this process ends."""
    root = Path(tempfile.mkdtemp(prefix="decouple-template-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return make(root / "made")
