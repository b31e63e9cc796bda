"""Open a zip that others made.

Its directory is bounded before it is read, and an error says what is wrong with it. ``zipfile`` keeps an object for
every member before anybody can look at their number, and raises ten kinds of exceptions for a damaged archive. Source
of the layout: PKWARE's APPNOTE.TXT, 4.3.14 to 4.3.16.
"""

from __future__ import annotations

import contextlib
import errno
import lzma
import struct
import traceback
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import DEPTH_BOUND, FILE_BOUND

DIRECTORY_BOUND = 16 << 20
"""Bytes of a zip's central directory; PyTorch's wheel has about 1.5 MiB for 12,000 members."""
MEMBER_BOUND = 100_000
"""Members of a zip; PyTorch's source with all submodules has 60,000 files."""
GROWTH_BOUND = 100
"""How many times its own size a zip may unpack to; machine code grows three- to fourfold."""
GROWTH_FREE = 64 << 20
"""Bytes that any zip may unpack to."""

#: Locator of zip64: signature, disk, place of the end record, disks. End record: …, bytes and place of the directory.
_LOCATOR, _END_64 = struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")
_END = 22
_ENTRY = b"PK\1\2"
DAMAGE = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, ValueError, IndexError, OverflowError, NotImplementedError, RuntimeError),
)
"""What ``zipfile`` raises for an archive that is damaged, encrypted or packed in a way that it does not know."""


class Archive(zipfile.ZipFile):
    """A zip that raises DecoupleError for a member that is missing."""

    def getinfo(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of a member. Raises DecoupleError where there is none."""
        try:
            return super().getinfo(name)
        except KeyError:
            raise DecoupleError(f"{self.filename}: {name} is missing", next_step="is this the right file?") from None


@contextlib.contextmanager
def open_zip(path: Path, *, mend: str = "build or download it again") -> Iterator[Archive]:
    """Open the zip ``path`` to read it; ``mend`` is the next step to tell.

    Raises DecoupleError when its directory is too large, when it would unpack to far more than it has, and for anything
    that the archive turns out to be while it is read in the ``with``; OSError as ``open`` does.
    """
    try:
        with path.open("rb") as source:
            refuse_large_directory(source, path.name)
        with Archive(path) as archive:
            refuse_spread(archive, path.stat().st_size, path.name)
            yield archive
    except DAMAGE as error:
        if not _is_of_zipfile(error):
            raise  # a fault of who reads it
        raise DecoupleError(f"{path}: not a whole zip: {error}", next_step=mend) from error
    except OSError as error:
        if error.filename is not None or error.errno not in (None, errno.EINVAL):
            raise
        # a member's place before the beginning of the file, or what bz2 says of damaged data
        raise DecoupleError(f"{path}: not a whole zip: {error}", next_step=mend) from error


def _is_of_zipfile(error: BaseException) -> bool:
    """Say whether ``zipfile``, or what it called, raised ``error``."""
    own = zipfile.ZipFile.open.__code__.co_filename
    return any(frame.f_code.co_filename == own for frame, _ in traceback.walk_tb(error.__traceback__))


def refuse_spread(archive: zipfile.ZipFile, size: int, name: str) -> None:
    """Raise DecoupleError where a zip would unpack to far more than its size.

    It has ``size`` bytes. Folders that are too deep are refused, too.
    """
    deep = max((info.filename.count("/") for info in archive.infolist()), default=0)
    if deep > DEPTH_BOUND:
        raise _make_refusal(f"{name}: a member {deep} folders deep, more than {DEPTH_BOUND}")
    unpacked = sum(info.file_size for info in archive.infolist())
    if unpacked > GROWTH_FREE + GROWTH_BOUND * size:
        raise _make_refusal(f"{name}: {size} bytes that unpack to {unpacked}, more than {GROWTH_BOUND} times as much")


def refuse_large_directory(source: BinaryIO, name: str) -> None:
    """Raise DecoupleError when a zip has too many members to be of use.

    The end record is where ``zipfile`` looks for it: without a comment at the very end, else the last one of the last
    64 KiB; that of zip64, which 4 GiB or 65,536 members need, right before its locator. Refused is also a locator that
    names another place, which other readers would take. Members are counted by their signatures: the number that the
    end record gives is not what ``zipfile`` goes by.
    """
    size = source.seek(0, 2)
    if size > FILE_BOUND:
        raise _make_refusal(f"{name}: {size} bytes, more than {FILE_BOUND}")
    first = max(0, size - (1 << 16) - _END - _LOCATOR.size - _END_64.size)
    source.seek(first)
    tail = source.read(size - first)
    at = len(tail) - _END if tail[-22:-18] == b"PK\5\6" and tail[-2:] == b"\0\0" else tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END:
        return  # zipfile says what it is not
    length, end = int.from_bytes(tail[at + 12 : at + 16], "little"), at
    locator = at - _LOCATOR.size
    if locator >= 0 and tail[locator : locator + 4] == b"PK\6\7":
        end = locator - _END_64.size
        *_, place, _ = _LOCATOR.unpack_from(tail, locator)
        if end < 0 or tail[end : end + 4] != b"PK\6\6" or place != first + end:
            raise _make_refusal(f"{name}: a zip64 archive whose end record is not where its locator says")
        *_, length, _ = _END_64.unpack_from(tail, end)
    if length > DIRECTORY_BOUND:
        raise _make_refusal(f"{name}: a directory of {length} bytes, more than {DIRECTORY_BOUND}")
    if length <= MEMBER_BOUND * len(_ENTRY) or length > first + end:
        return  # no room for so many; or zipfile says what it is not
    source.seek(first + end - length)
    if (members := source.read(length).count(_ENTRY)) > MEMBER_BOUND:
        raise _make_refusal(f"{name}: {members} members, more than {MEMBER_BOUND}")


def _make_refusal(what: str) -> DecoupleError:
    return DecoupleError(what, next_step="do not use it; tell its publisher")
