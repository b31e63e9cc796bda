"""Read members of a zip file on a web server by HTTP range, not the rest.

A wheel of 770 MB has 20 MB of text. Three requests get it: the end of the file with the central directory, and the
ranges of the wanted members, coalesced where little lies between them.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, cast

from msgspec import Struct

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.base.progress import SILENT, Progress
from decouple.base.transfer_rate import RateMeter
from decouple.base.untrusted_input import is_count
from decouple.release.manifest import RemoteFile
from decouple.upstream.download import HEADERS, Downloader, RefusalError, RetryError, check_response, read_piece
from decouple.upstream.request_faults import RequestError

#: How much of the end is asked for first; the central directory of a torch wheel is 1 to 2 MB.
TAIL = 2 << 20
#: The same when the text is wanted too: its last stretch lies right before the directory, so it comes along.
TEXT_TAIL = 6 << 20
#: Bytes of one answer and of one member; the text of PyTorch's wheel has about 60 MiB in all.
MOST = 256 << 20
#: Bytes of a member's own header before its name.
_LOCAL = 30
#: Two members with less than this between them are one request.
GAP = 1 << 20
#: Bytes that one request of a streamed member asks for.
_PIECE = 16 << 20


class Member(Struct, frozen=True):
    """One member; ``first`` and ``end`` bound it in the file, local header included."""

    info: zipfile.ZipInfo
    first: int
    end: int


class RemoteZip:
    """Read a zip file behind the first of ``file``'s URLs that serves ranges.

    Every method raises DecoupleError.
    """

    def __init__(
        self, file: RemoteFile, downloader: Downloader, progress: Progress = SILENT, *, tail: int = TAIL
    ) -> None:
        self.file = file
        self.requests = 0
        self.received = 0
        self._downloader = downloader
        self._progress = progress
        self._segments: list[tuple[int, bytes]] = []
        self.size = 0
        self.url = ""
        failures = []
        settings = []
        for url in file.urls:
            try:
                self.url = url
                self._request_ranges(f"bytes=-{tail}")
                break
            except RefusalError as error:
                failures.append(f"{url}: {error}")
                settings += [error.setting] if error.setting else []
        else:
            raise RequestError(
                f"cannot read {file.name} by range: " + "; ".join(failures),
                settings[0] if settings else None,
                next_step="try again later, or another --source",
            )
        try:
            zips.refuse_large_directory(cast("BinaryIO", _SparseFile(self)), self.url)
            self._zip = zipfile.ZipFile(_SparseFile(self))
        except (*zips.DAMAGE, OSError) as error:
            raise DecoupleError(f"{self.url}: no zip file: {error}", next_step="try again later") from None
        ordered = sorted(self._zip.infolist(), key=lambda info: info.header_offset)
        if not ordered:
            raise DecoupleError(f"{self.url}: a zip file without a member", next_step="try again later")
        ends = [info.header_offset for info in ordered[1:]] + [self._zip.start_dir]
        if any(not 0 <= first <= self.size for first in (*ends, *(info.header_offset for info in ordered))):
            raise DecoupleError(f"{self.url}: a member that lies outside the file", next_step="try again later")
        self.members = [Member(info, info.header_offset, end) for info, end in zip(ordered, ends, strict=True)]

    def list_names(self) -> list[str]:
        """Return the names of all members."""
        return [member.info.filename for member in self.members]

    def load_members(self, wanted: Callable[[zipfile.ZipInfo], bool]) -> list[Member]:
        """Return all ``wanted`` members, in as few requests as :data:`GAP` allows."""
        chosen = [member for member in self.members if wanted(member.info)]
        ranges = list(merge_ranges((member.first, member.end) for member in chosen))
        self._progress.start(f"{self.file.name} by range", float(sum(end - first for first, end in ranges)), "bytes")
        for first, end in ranges:
            self.ensure_range(first, end)
        self._progress.finish()
        return chosen

    def stream_content(self, member: Member) -> Iterator[bytes]:
        """Yield the content of a member of any size, some MiB at a time.

        Nothing of it is kept. Raises DecoupleError when the data are damaged; their CRC is the caller's affair, who
        knows a better hash.
        """
        local = self.read_at(member.first, _LOCAL)
        at = member.first + _LOCAL + sum(struct.unpack("<2H", local[-4:]))
        end = at + member.info.compress_size
        deflated = member.info.compress_type == zipfile.ZIP_DEFLATED
        decoder = zlib.decompressobj(-15)
        try:
            while at < end:
                asked = f"bytes={at}-{min(at + _PIECE, end) - 1}"
                _, data = self._downloader.retry_request(lambda asked=asked: self._request_once(asked))  # type: ignore[misc]
                at += len(data)
                yield decoder.decompress(data) if deflated else data
        except RefusalError as error:
            raise RequestError(
                f"{self.url}: bytes from {at}: {error}", error.setting, next_step="try again later"
            ) from None
        except zlib.error as error:
            raise DecoupleError(
                f"{self.url}: {member.info.filename} is damaged: {error}", next_step="try again later"
            ) from None
        if deflated and not decoder.eof:
            raise DecoupleError(f"{self.url}: {member.info.filename} is cut short", next_step="try again later")

    def read(self, member: Member | str) -> bytes:
        """Read the content of a member; its CRC is checked.

        Raises DecoupleError also when there is none of that name.
        """
        name = member if isinstance(member, str) else member.info.filename
        try:
            size = self._zip.getinfo(name).file_size
            if size > MOST:
                raise DecoupleError(
                    f"{self.url}: {name} has {size} bytes", next_step="take another source with --source"
                )
            return self._zip.read(name)
        except KeyError:
            raise DecoupleError(
                f"{self.url}: has no {name}", next_step="is this the wheel that the manifest means?"
            ) from None
        except (*zips.DAMAGE, OSError) as error:
            raise DecoupleError(f"{self.url}: {name} is damaged: {error}", next_step="try again later") from None

    def ensure_range(self, first: int, end: int) -> None:
        """Make the bytes from ``first`` up to ``end`` present."""
        if end <= first or any(start <= first and end <= start + len(data) for start, data in self._segments):
            return
        try:
            self._request_ranges(f"bytes={first}-{end - 1}")
        except RefusalError as error:
            raise RequestError(
                f"{self.url}: bytes {first} to {end}: {error}", error.setting, next_step="try again later"
            ) from None

    def read_at(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from ``position``, asked for if they are not there."""
        size = max(0, min(size, self.size - position))
        self.ensure_range(position, position + size)
        for start, data in self._segments:
            if start <= position and position + size <= start + len(data):
                return data[position - start : position - start + size]
        raise DecoupleError(
            f"{self.url}: bytes {position} to {position + size} did not come", next_step="try again later"
        )

    def _request_ranges(self, asked: str) -> None:
        start, data = self._downloader.retry_request(lambda: self._request_once(asked))
        self._segments.append((start, data))

    def _request_once(self, asked: str) -> tuple[int, bytes]:
        """Send one request; returns where its bytes begin, and the bytes.

        Raises RetryError or RefusalError.
        """
        if self._downloader.offline:
            raise RefusalError("not in the cache, and --offline forbids to ask for it")
        with self._downloader.open_response(self.url, HEADERS | {"Range": asked}) as response:
            self.requests += 1
            check_response(response, self.file.name)
            if response.status_code != 206:
                raise RefusalError("the server ignores ranges and would send the whole file")
            placed, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            first, _, last = placed.partition("-")
            if not (is_count(first) and is_count(last) and is_count(total)):
                raise RefusalError("the answer does not say where its bytes belong")
            known = self.size or self.file.size
            if known is not None and int(total) != known:
                raise RefusalError(f"wrong size: the file has {total} bytes, {known} expected")
            if not asked.startswith(("bytes=-", f"bytes={first}-")):
                raise RefusalError(f"asked for {asked}, got those from {first}")
            self.size = int(total)
            wanted = int(last) - int(first) + 1
            if not 0 < wanted <= MOST:
                raise RefusalError(f"an answer of {wanted} bytes, where at most {MOST} are of use")
            pieces, got, pace = [], 0, RateMeter()
            while piece := read_piece(response, pace):
                pieces.append(piece)
                got += len(piece)
                self._progress.advance(len(piece))
                if got > wanted:
                    raise RefusalError(f"more than the expected {wanted} bytes")
            self.received += got
            if got < wanted:
                raise RetryError(f"the connection ended after {got} of {wanted} bytes")
            return int(first), b"".join(pieces)


class _SparseFile(io.RawIOBase):
    """A RemoteZip as the seekable file that zipfile wants."""

    def __init__(self, remote: RemoteZip) -> None:
        self._remote = remote
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._remote.size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> Any:
        if size is None or size < 0:
            size = self._remote.size - self._position
        data = self._remote.read_at(self._position, size)
        self._position += len(data)
        return data


def merge_ranges(ranges: Iterable[tuple[int, int]], gap: int = GAP) -> list[tuple[int, int]]:
    """Join ranges (first, end) that have less than ``gap`` between them.

    >>> merge_ranges([(0, 10), (12, 20), (100, 110)], gap=5)
    [(0, 20), (100, 110)]
    """
    result: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if result and first - result[-1][1] < gap:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result
