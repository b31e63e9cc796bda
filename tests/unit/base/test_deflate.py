"""What several cores compress is one deflate stream, the same on every machine."""

from __future__ import annotations

import random
import zlib

import pytest

from decouple.base.deflate import Deflater


def compressed(data: bytes, threads: int, piece: int) -> bytes:
    with Deflater(6, threads) as deflater:
        parts = [deflater.compress(data[start : start + piece]) for start in range(0, len(data), piece)]
        return b"".join([*parts, deflater.flush()])


@pytest.mark.parametrize("size", [0, 1, 4 << 20, (9 << 20) + 17])
def test_any_number_of_threads_gives_the_same_bytes(size: int) -> None:
    data = (random.Random(1).randbytes(1 << 16) + b"spelled out " * 5000) * (size // 100_000 + 1)
    data = data[:size]
    one = compressed(data, 1, 1 << 20)
    assert one == compressed(data, 3, 1 << 20) == compressed(data, 2, 123_457)
    assert zlib.decompress(one, -zlib.MAX_WBITS) == data


def test_one_deflater_makes_one_stream_after_the_other() -> None:
    with Deflater(6, 2) as deflater:
        first = deflater.compress(b"the first") + deflater.flush()
        second = deflater.compress(b"the second") + deflater.flush()
    assert [zlib.decompress(one, -zlib.MAX_WBITS) for one in (first, second)] == [b"the first", b"the second"]
