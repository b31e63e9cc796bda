"""Read tar archives of any compression forwards, once, bounded, one block ahead."""

from __future__ import annotations

import contextlib
import lzma
import os
import queue
import shutil
import subprocess
import tarfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

from decouple.base.program_output import make_english_variables

HEADER_BOUND = 1 << 20
"""Bytes of one long name or extended header."""
_BEFORE = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MOST_HEADERS = 100
"""How many of these may follow each other before a member comes; tarfile calls itself for each."""


class BoundedTarInfo(tarfile.TarInfo):
    """For ``tarfile.open(tarinfo=...)``: a bound on what stands before a member.

    tarfile reads long names (GNU), extended headers (pax) and the maps of sparse files whole into memory, whatever size
    they claim: half a megabyte of xz can hold a name of three gigabytes. Names in a source tree have at most a few
    hundred bytes, and nothing in one is sparse. Raises tarfile.ReadError for what is too large.
    Source: the comment above ``TarInfo._proc_member`` in CPython's tarfile, which names it as what a subclass replaces.
    """

    __slots__ = ()

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        depth = getattr(archive, "decouple_depth", 0)
        if self.type in _BEFORE:
            if not 0 <= self.size <= HEADER_BOUND:
                raise tarfile.ReadError(f"a name or header of {self.size} bytes, more than {HEADER_BOUND}")
            if depth >= MOST_HEADERS:
                raise tarfile.ReadError(f"more than {MOST_HEADERS} headers before one member")
            archive.decouple_depth = depth + 1  # type: ignore[attr-defined]
        elif self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        try:
            member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        finally:
            archive.decouple_depth = depth  # type: ignore[attr-defined]
        return member

    def _proc_gnusparse_10(self, *_: Any) -> None:
        raise tarfile.ReadError("a sparse file")


#: What a damaged archive, or a file that is none, makes Python's readers raise. ``gzip.BadGzipFile`` is an OSError
#: without a number.
DAMAGE = (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, ValueError)
_BLOCK = 1 << 18


class ByteStream(Protocol):
    """What gives bytes, in pieces as large as asked for or smaller."""

    def read(self, size: int, /) -> bytes: ...


class TarReader:
    """The members of an archive in order, and the content of the newest one."""

    def __init__(self, stream: _SeekableStream, raw: IO[bytes]) -> None:
        self._stream = stream
        self._raw = raw
        self._tar = tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:", tarinfo=BoundedTarInfo)  # noqa: SIM115

    def __iter__(self) -> Iterator[tarfile.TarInfo]:
        return iter(self._tar)

    @property
    def position(self) -> int:
        """Return how many bytes of the archive were taken so far.

        Those that a process took to decompress count too.
        """
        return os.lseek(self._raw.fileno(), 0, os.SEEK_CUR)

    def open_content(self, member: tarfile.TarInfo) -> ByteStream:
        """Return the stream of ``member``, the newest one.

        Only ``member.size`` bytes of it are the member's.
        """
        self._stream.seek(member.offset_data)
        return self._stream

    def read(self, member: tarfile.TarInfo) -> bytes:
        """Read the bytes of ``member``, the newest one.

        Raises EOFError where the archive is cut off in them.
        """
        stream, pieces, left = self.open_content(member), [], member.size
        while left:
            piece = stream.read(min(left, _BLOCK))
            if not piece:
                raise EOFError(f"cut off in the middle of {member.name}")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


@contextlib.contextmanager
def open_tar(path: Path, *, most_after: int) -> Iterator[TarReader]:
    """Open a tar archive (plain, gz, xz, bz2) to read members from.

    What is behind its end is read too, and discarded. So a checksum of the compression is checked. Raises one of
    :data:`DAMAGE` or OSError for an archive that is damaged, or followed by more than ``most_after`` bytes.
    """
    with path.open("rb", buffering=0) as raw, _open_decompressed(raw) as stream, _read_ahead(stream) as ahead:
        yield TarReader(_SeekableStream(ahead), raw)
        left = most_after
        while data := ahead.read(_BLOCK):
            left -= len(data)
            if left < 0:
                raise ValueError(f"it is followed by more than {most_after} bytes")


@contextlib.contextmanager
def _open_decompressed(raw: IO[bytes]) -> Iterator[ByteStream]:
    """Open the bytes inside ``raw``.

    xz(1) does the blocks of an .xz file in parallel, Python's lzma does not.
    """
    import bz2
    import gzip

    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=raw) as zipped:
            yield zipped
    elif magic.startswith(b"BZh"):
        with bz2.open(raw) as zipped:
            yield zipped
    elif magic != b"\xfd7zXZ\0":
        yield raw
    elif xz := shutil.which("xz"):
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [xz, "-dc", "-T0"], stdin=raw, stdout=pipe, stderr=pipe, env=make_english_variables()
        ) as process:
            assert process.stdout and process.stderr
            try:
                yield process.stdout
            except BaseException:
                process.kill()
                raise
            if process.wait():
                message = process.stderr.read().decode("utf-8", "replace").strip()
                raise ValueError(message or f"xz ended with {process.returncode}")
    else:
        with lzma.open(raw) as zipped:
            yield zipped


@contextlib.contextmanager
def _read_ahead(stream: ByteStream) -> Iterator[ByteStream]:
    """Read ``stream`` by a thread of its own, a few blocks ahead.

    So decompressing and writing overlap. The reader gets blocks of any size; an error of the thread is raised where
    its block would have come.
    """
    ahead = _AheadStream(stream)
    thread = threading.Thread(target=ahead.fill_queue, daemon=True)
    thread.start()
    try:
        yield ahead
    finally:
        ahead.over.set()
        thread.join()


class _AheadStream:
    """Read a stream in a thread, into a queue, for another thread until ``over``."""

    def __init__(self, stream: ByteStream) -> None:
        self.over = threading.Event()
        self._stream = stream
        self._blocks: queue.Queue[bytes | BaseException] = queue.Queue(maxsize=16)
        self._last: bytes | BaseException | None = None
        """What ended the stream: nothing comes after it, so asking the thread again would wait for ever."""

    def fill_queue(self) -> None:
        try:
            while not self.over.is_set():
                data = self._stream.read(_BLOCK)
                self._put(data)
                if not data:
                    return
        except BaseException as error:
            self._put(error)

    def _put(self, item: bytes | BaseException) -> None:
        while not self.over.is_set():
            with contextlib.suppress(queue.Full):
                self._blocks.put(item, timeout=0.1)
                return

    def read(self, size: int, /) -> bytes:
        item = self._blocks.get() if self._last is None else self._last
        if not item or isinstance(item, BaseException):
            self._last = item
        if isinstance(item, BaseException):
            raise item
        return item


class _SeekableStream:
    """A stream as the file that tarfile seeks in: forward, and back by a block.

    tarfile's own stream mode takes 3.5 times as long (seen on the 16,631 members of 2.6.0's .orig), nearly all of it in
    skipping what is not wanted.
    """

    _BACK = 512

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._base = self._at = 0
        self._data = b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> int:
        self._at = offset
        return offset

    def read(self, size: int, /) -> bytes:
        while self._at + size > self._base + len(self._data) and (more := self._stream.read(_BLOCK)):
            dropped = max(0, min(self._at - self._BACK - self._base, len(self._data)))
            self._data = self._data[dropped:] + more
            self._base += dropped
        start = self._at - self._base
        if start < 0:
            raise ValueError("the archive is not in order")
        piece = self._data[start : start + size]
        self._at += len(piece)
        return piece
