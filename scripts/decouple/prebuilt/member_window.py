"""Read a member of a wheel on a server, of which only the ends are fetched."""

from __future__ import annotations

import struct
import zipfile
import zlib

from decouple.base.errors import DecoupleError
from decouple.prebuilt.deflate_tail import Tail, inflate_end
from decouple.upstream.remote_zip import Member, RemoteZip

#: How much of the beginning comes at once, and how much of the end at first.
_STEP = 1 << 20
_LOCAL = struct.Struct("<4s5H3I2H")


class MemberWindow:
    """``window(position, size)`` onto one deflated member.

    Raises DecoupleError when the server or the data fail.
    """

    def __init__(self, remote: RemoteZip, member: Member) -> None:
        self._remote = remote
        self.name = member.info.filename
        self.size = member.info.file_size
        local = remote.read_at(member.first, _LOCAL.size)
        *_, name, extra = _LOCAL.unpack(local)
        if local[:4] != b"PK\x03\x04" or member.info.compress_type != zipfile.ZIP_DEFLATED:
            raise self._damage_error("not a deflated member")
        self._begin = member.first + _LOCAL.size + name + extra
        self._end = self._begin + member.info.compress_size
        self._front = bytearray()
        self._read = self._begin
        self._decoder = zlib.decompressobj(-15)
        self._raw_tail = b""
        self._tail: Tail | None = None

    def __call__(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from ``position``, read from the nearer end."""
        if position < 0 or position + size > self.size:
            raise self._damage_error(f"has {self.size} bytes, those up to {position + size} are asked for")
        while position + size > len(self._front):
            content = self._tail.at(position, size) if self._tail else None
            if content is not None:
                return content
            if position > self.size // 2 and len(self._raw_tail) < (self._end - self._begin) // 2:
                self._extend_tail()
            else:
                self._extend_front()
        return bytes(self._front[position : position + size])

    def _extend_front(self) -> None:
        count = min(_STEP, self._end - self._read)
        if count <= 0:
            raise self._damage_error(f"ends after {len(self._front)} of {self.size} bytes")
        try:
            self._front += self._decoder.decompress(self._remote.read_at(self._read, count))
        except zlib.error as error:
            raise self._damage_error(str(error)) from None
        self._read += count

    def _extend_tail(self) -> None:
        known = len(self._raw_tail)
        count = min(max(known, _STEP), self._end - self._begin - known)
        first = self._end - known - count
        self._raw_tail = self._remote.read_at(first, count) + self._raw_tail
        self._tail = inflate_end(self._raw_tail, self.size) or self._tail

    def _damage_error(self, why: str) -> DecoupleError:
        return DecoupleError(f"{self._remote.url}: {self.name}: {why}", next_step="try again later")
