"""Read a Debian package's files: ``data.tar.*`` in an ar archive (``deb(5)``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from decouple.base.errors import DecoupleError
from decouple.base.files import create_file

_MAGIC = b"!<arch>\n"
#: ar(5): 16 bytes name, 12 date, 6 owner, 6 group, 8 mode, 10 size in decimal, 2 end.
_HEADER, _END = 60, b"`\n"
_BLOCK = 1 << 20


@contextlib.contextmanager
def open_data(file: Path, scratch: Path) -> Iterator[Path]:
    """Copy the tar archive with the files of a ``.deb`` to ``scratch``, for the block.

    Any other file is given as it is. Raises DecoupleError when a ``.deb`` is damaged or has no such member.
    """
    if file.suffix != ".deb":
        yield file
        return
    try:
        with file.open("rb") as package:
            left = _find_data(package, file)
            with create_file(scratch) as out:
                while left and (block := package.read(min(left, _BLOCK))):
                    out.write(block)
                    left -= len(block)
        if left:
            raise _make_damage_error(file, "ends early")
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def _find_data(package: BinaryIO, file: Path) -> int:
    """Go to the content of ``data.tar.*``; returns its size in bytes."""
    if package.read(len(_MAGIC)) != _MAGIC:
        raise _make_damage_error(file, "is no ar archive")
    while header := package.read(_HEADER):
        size = header[48:58].strip()
        if len(header) != _HEADER or header[58:] != _END or not size.isdigit():
            raise _make_damage_error(file, "has a header that is none")
        if header[:16].startswith(b"data.tar"):
            return int(size)
        package.seek(int(size) + int(size) % 2, 1)
    raise _make_damage_error(file, "has no data.tar in it")


def _make_damage_error(file: Path, what: str) -> DecoupleError:
    return DecoupleError(f"{file}: {what}", next_step="delete it and fetch again")
