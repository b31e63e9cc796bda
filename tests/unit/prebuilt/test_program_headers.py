"""Program headers in the order that PyTorch's unwinder counts on."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

import pytest

from decouple.prebuilt.program_headers import put_loadable_first
from tests.unit.prebuilt.test_symbols import compiled

pytestmark = pytest.mark.tools("c++")

LOAD, UNWINDING = 1, 0x6474E550


def table(library: Path) -> tuple[int, list[bytes]]:
    data = library.read_bytes()
    (place,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    return place, [data[place + 56 * at : place + 56 * (at + 1)] for at in range(count)]


def kinds(library: Path) -> list[int]:
    return [struct.unpack_from("<I", entry)[0] for entry in table(library)[1]]


@pytest.fixture
def sorted_by_place(tmp_path: Path) -> Path:
    """A library as patchelf leaves one of lld's: the unwinding table's header before the first loadable one's."""
    library = compiled('extern "C" int answer() { return 42; }', tmp_path / "lib.so")
    place, entries = table(library)
    entries.sort(key=lambda entry: struct.unpack_from("<I", entry)[0] != UNWINDING)
    with library.open("r+b") as file:
        file.seek(place)
        file.write(b"".join(entries))
    assert kinds(library)[0] == UNWINDING
    return library


def test_loadable_segments_stand_first_and_the_library_still_loads(sorted_by_place: Path) -> None:
    before = sorted(table(sorted_by_place)[1])
    put_loadable_first(sorted_by_place)
    found = kinds(sorted_by_place)
    assert found.index(UNWINDING) > max(at for at, kind in enumerate(found) if kind == LOAD)
    assert sorted(table(sorted_by_place)[1]) == before
    assert ctypes.CDLL(str(sorted_by_place)).answer() == 42


def test_doing_it_twice_changes_nothing_more(sorted_by_place: Path) -> None:
    put_loadable_first(sorted_by_place)
    once = sorted_by_place.read_bytes()
    put_loadable_first(sorted_by_place)
    assert sorted_by_place.read_bytes() == once


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 10, b"\x7fELF\x01\x01" + bytes(60)])
def test_what_is_no_such_library_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    other = tmp_path / "other"
    other.write_bytes(data)
    put_loadable_first(other)
    assert other.read_bytes() == data
