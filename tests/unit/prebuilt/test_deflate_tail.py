"""The end of a deflate stream is read without its beginning, and what is not certain is never passed off as known."""

from __future__ import annotations

import random
import zlib

import pytest

from decouple.prebuilt.deflate_tail import inflate_end


def deflate(data: bytes, level: int = 6) -> bytes:
    maker = zlib.compressobj(level, zlib.DEFLATED, -15)
    return maker.compress(data) + maker.flush()


def names(count: int, seed: int = 6) -> bytes:
    """Text like a table of mangled names: repetitive, with references across blocks."""
    chance = random.Random(seed)
    words = ["at", "native", "cuda", "Tensor", "empty", "strided", "c10", "Scalar"]
    return b"\0".join(
        (
            "_ZN" + "".join(f"{len(word)}{word}" for word in chance.choices(words, k=5)) + f"{chance.random():.12f}"
        ).encode()
        for _ in range(count)
    )


def code(size: int) -> bytes:
    """Like machine code to a compressor: uneven bytes, hardly a repetition."""
    uneven = bytes(number * number >> 8 for number in range(256))
    return random.Random(1).randbytes(size).translate(uneven)


@pytest.mark.parametrize("level", [1, 6, 9])
def test_the_end_comes_out_as_it_is(level: int) -> None:
    table = names(20_000)
    data = code(400_000) + table
    tail = inflate_end(deflate(data, level)[-(len(deflate(table, level)) + 150_000) :], len(data))
    assert tail is not None
    assert tail.certain <= len(data) - len(table)
    assert tail.at(tail.certain, len(data) - tail.certain) == data[tail.certain :]


def test_what_may_depend_on_the_unknown_is_not_given_out() -> None:
    data = names(30_000)
    tail = inflate_end(deflate(data)[-200_000:], len(data))
    assert tail is not None and tail.at(tail.certain - 1, 10) is None


def test_too_little_of_the_end_is_no_answer() -> None:
    data = names(2_000)
    assert inflate_end(deflate(data)[-40:], len(data)) is None


def test_bytes_that_are_no_deflate_are_no_answer() -> None:
    assert inflate_end(random.Random(2).randbytes(3_000), 1 << 20) is None
