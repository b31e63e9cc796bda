"""Where the traceback of a fault of ours goes: a file, whose place the user is told."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from decouple import __version__
from decouple.base.paths import cache_dir
from decouple.cli.shown import escaped, without_secrets


def written(error: Exception, words: Sequence[str]) -> str:
    """Where the traceback was put."""
    lines = traceback.format_exception(error)
    text = f"decouple {__version__}, Python {sys.version.split()[0]}\n{' '.join(words)}\n{''.join(lines)}"
    for folder in (_folder, lambda: None):
        try:
            place = folder()
            if place:
                place.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            handle, name = tempfile.mkstemp(prefix=f"fault-{stamp}-", suffix=".log", dir=place)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write("".join(escaped(without_secrets(line)) for line in text.splitlines(keepends=True)))
            return f"its log is {name}"
        except Exception:  # a full disk, no home: there is another place, and then none
            continue
    return "no disk here takes its log"


def _folder() -> Path:
    return cache_dir() / "faults"
