"""Inflate the end of a deflated zip member without its beginning.

A library of 900 MB has its names at its end, where patchelf put them, and deflate (RFC 1951) has no index. But it comes
in blocks that begin with a description of their own codes, and refers back by 32 KiB at most. So a decoder can start at
any block when it is told that those 32 KiB are unknown. It is run twice, with two different fillings of the unknown: a
byte that comes out the same both times does not depend on it.
"""

from __future__ import annotations

import zlib

from msgspec import Struct

_WINDOW = 1 << 15
_FILLINGS = (b"\x00" * _WINDOW, b"\xff" * _WINDOW)
#: A start that is none fails within some bytes; one that lives this long is tried in earnest.
_FIRST, _LONG = 256, 1 << 16
#: A block of zlib's has at most 32,767 symbols of some 4 bytes, so a boundary is found within this many bytes or never.
_SEARCH = 1 << 17


class Tail(Struct, frozen=True):
    """The last bytes of a member: ``content`` from ``offset`` on.

    What lies below ``certain`` may be wrong.
    """

    content: bytes
    offset: int
    certain: int

    def at(self, position: int, size: int) -> bytes | None:
        """Return ``size`` bytes from ``position`` of the member.

        None when not all of them are known.
        """
        if position < self.certain or position + size > self.offset + len(self.content):
            return None
        return self.content[position - self.offset : position - self.offset + size]


def inflate_end(compressed: bytes, size: int) -> Tail | None:
    """Inflate the last ``compressed`` bytes of a raw deflate stream.

    The whole stream inflates to ``size`` bytes. None when no block begins early enough in them: try again with more.
    """
    for start in range(min(_SEARCH, len(compressed) - 5)):
        head = int.from_bytes(compressed[start : start + 5], "little")
        for bit in range(8):
            if not _may_begin_block(head >> bit):
                continue
            if not _can_decode(compressed[start : start + _FIRST], bit) or not _can_decode(
                compressed[start : start + _LONG], bit
            ):
                continue
            tail = _decode_end(_shift_bits(compressed[start:], bit), size)
            if tail is not None:
                return tail
    return None


def _may_begin_block(bits: int) -> bool:
    """Return whether a block with own codes, not the last, may begin here.

    Its type is 2, its counts are within the RFC's.
    """
    return bits & 7 == 4 and (bits >> 3) & 31 <= 29 and (bits >> 8) & 31 <= 29


def _shift_bits(data: bytes, bits: int) -> bytes:
    return (int.from_bytes(data, "little") >> bits).to_bytes(len(data), "little") if bits else data


def _can_decode(data: bytes, bits: int) -> bool:
    try:
        zlib.decompressobj(-15, zdict=_FILLINGS[0]).decompress(_shift_bits(data, bits))
    except zlib.error:
        return False
    return True


def _decode_end(data: bytes, size: int) -> Tail | None:
    outcomes = []
    for filling in _FILLINGS:
        decoder = zlib.decompressobj(-15, zdict=filling)
        try:
            outcomes.append(decoder.decompress(data))
        except zlib.error:
            return None
        if not decoder.eof or len(outcomes[-1]) > size:
            return None
    first, second = outcomes
    if len(first) != len(second):
        return None
    return Tail(first, size - len(first), size - len(first) + _find_last_difference(first, second))


def _find_last_difference(first: bytes, second: bytes) -> int:
    """Return the end of the last place where the two differ; 0 when nowhere."""
    step = 1 << 16
    for start in range((len(first) - 1) // step * step, -1, -step):
        if first[start : start + step] != second[start : start + step]:
            return max(
                position + 1
                for position in range(start, min(start + step, len(first)))
                if first[position] != second[position]
            )
    return 0
