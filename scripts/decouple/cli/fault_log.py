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
from decouple.base.paths import find_cache
from decouple.cli.shown import escape_text, hide_secrets


def write_traceback(error: Exception, words: Sequence[str]) -> str:
    """Write the traceback to a file; returns where."""
    lines = traceback.format_exception(error)
    text = f"decouple {__version__}, Python {sys.version.split()[0]}\n{' '.join(words)}\n{''.join(lines)}"
    for folder in (_find_folder, lambda: None):
        try:
            place = folder()
            if place:
                place.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
            handle, name = tempfile.mkstemp(prefix=f"fault-{stamp}-", suffix=".log", dir=place)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write("".join(escape_text(hide_secrets(line)) for line in text.splitlines(keepends=True)))
            return f"its log is {name}"
        except Exception:  # a full disk, no home: there is another place, and then none
            continue
    return "no disk here takes its log"


def _find_folder() -> Path:
    return find_cache() / "faults"
