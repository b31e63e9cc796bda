"""Where a line ends: at LF and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import AnyStr

BOM = "\ufeff"
"""What some editors write in front of UTF-8: no part of the text."""


def split_lines(text: AnyStr) -> list[AnyStr]:
    """Split text into lines with their newlines.

    ``splitlines`` would also end one at form feeds and others.
    """
    if isinstance(text, bytes) and b"\r" not in text:  # of bytes it ends one at LF and CR alone, and is faster
        return text.splitlines(keepends=True)
    newline = "\n" if isinstance(text, str) else b"\n"
    lines = text.split(newline)
    last = lines.pop()
    return [line + newline for line in lines] + ([last] if last else [])


def find_lines(lines: Sequence[bytes], wanted: Sequence[bytes]) -> list[int]:
    """Return where ``wanted`` stand in ``lines``, from 0; for no lines nowhere."""
    size, block = len(wanted), list(wanted)
    first = block[0] if block else None
    return [at for at, line in enumerate(lines) if line == first and list(lines[at : at + size]) == block]
