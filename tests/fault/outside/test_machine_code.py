"""Libraries whose tables lead back to themselves, or end before they should."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.prebuilt import dynamic_symbols, program_headers
from decouple.verify import elf
from decouple.verify.kernels import cubin, fatbin
from tests.support import cubins


@pytest.mark.parametrize("header", [0, 8])
def test_a_container_of_no_size_ends(header: int, tmp_path: Path) -> None:
    """The next one would be the same one."""
    content = struct.pack("<IHHQ", fatbin.MAGIC, 1, header, 0) + bytes(16)
    library = cubins.library(tmp_path / "lib.so", [content])
    with pytest.raises(DecoupleError, match="no fatbin container"):
        fatbin.count_images(library)


def test_an_entry_cut_short(tmp_path: Path) -> None:
    library = cubins.library(tmp_path / "lib.so", [struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 8) + bytes(8)])
    with pytest.raises(DecoupleError, match="cut short"):
        list(fatbin.read_images(library))


def test_versions_that_lead_back_to_themselves() -> None:
    """Each of 65,535 entries of a record is the first one again, and there may be many records."""
    record = struct.pack("<HHIII", 1, 0xFFFF, 1, 16, 0) + struct.pack("<IHHII", 0, 0, 2, 1, 0)
    with pytest.raises(ValueError, match="versions"):
        list(dynamic_symbols._parse_needed_versions(record, b"\0name\0"))


@pytest.mark.parametrize("place", [0, 1 << 63], ids=["at the end", "behind what seek takes"])
def test_program_headers_behind_the_end(tmp_path: Path, place: int) -> None:
    library = cubins.library(tmp_path / "lib.so", [])
    data = bytearray(library.read_bytes())
    data[32:40] = struct.pack("<Q", place or len(data) - 8)
    library.write_bytes(data)
    with pytest.raises(DecoupleError, match="cut short"):
        program_headers.put_loadable_first(library)
    assert library.read_bytes() == bytes(data)


def test_sections_behind_what_a_machine_can_count() -> None:
    image = bytearray(64)
    image[:5], image[18], image[40:48], image[60] = b"\x7fELF\x02", 190, b"\xff" * 8, 1
    with pytest.raises(DecoupleError, match="no cubin"):
        cubin.read_cubin(bytes(image))


def test_a_section_larger_than_any_memory(tmp_path: Path) -> None:
    library = cubins.library(tmp_path / "lib.so", [])
    data = bytearray(library.read_bytes())
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    for place in range(table, table + 64 * count, 64):
        if struct.unpack_from("<I", data, place + 4) == (11,):  # SHT_DYNSYM
            data[place + 32 : place + 40] = struct.pack("<Q", 24 << 50)
    library.write_bytes(data)
    with pytest.raises(DecoupleError, match=r"lib\.so"):
        elf.read_library(library)
