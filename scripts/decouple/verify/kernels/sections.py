"""Sections and symbols of a 64-bit ELF image in memory, by offsets (elf(5)): device code is read by the thousand."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
RELA, NOTE, NOBITS, REL = 4, 7, 8, 9
OBJECT, FUNCTION, SECTION = 1, 2, 3
EXECUTED, STRINGS = 0x4, 0x20


class Section(Struct, frozen=True):
    """A row of the section table, with its name."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int

    def read(self, image: bytes) -> bytes:
        """Return the content; none for a section that takes no room in the file."""
        return b"" if self.kind == NOBITS else image[self.offset : self.offset + self.size]


class Symbol(Struct, frozen=True):
    """A row of the symbol table, with its name; ``other`` is st_other."""

    name: str
    kind: int
    section: int
    value: int
    size: int
    other: int


def list_sections(image: bytes, machine: int) -> list[Section]:
    """List the sections. Raises ValueError when it is no 64-bit ELF file for ``machine`` (e_machine)."""
    head = _HEADER.unpack_from(image)
    if head[0][:5] != b"\x7fELF\x02" or head[2] != machine:
        raise ValueError(f"no 64-bit ELF file for machine {machine}")
    table, count, names = head[6], head[12], head[13]
    rows = [_SECTION.unpack_from(image, table + number * _SECTION.size) for number in range(count)]
    strings = rows[names][4]
    return [
        Section(_read_string(image, strings + name), kind, flags, address, offset, size, link, info)
        for name, kind, flags, address, offset, size, link, info, _, _ in rows
    ]


def read_symbols(image: bytes, sections: Sequence[Section], table: str = ".symtab") -> list[Symbol]:
    """Read the symbols of ``table``; none where the image has no such section."""
    for section in sections:
        if section.name == table:
            strings = sections[section.link].offset
            return [
                Symbol(_read_string(image, strings + name), info & 15, index, value, size, other)
                for name, info, other, index, value, size in _SYMBOL.iter_unpack(section.read(image))
            ]
    return []


def iterate_relocations(image: bytes, section: Section) -> Iterator[tuple[int, int, int, int]]:
    """Yield offset, type, number of the symbol and addend of each relocation in a section of them."""
    form = struct.Struct("<QQq" if section.kind == RELA else "<QQ")
    for row in form.iter_unpack(section.read(image)):
        yield row[0], row[1] & 0xFFFFFFFF, row[1] >> 32, row[2] if len(row) > 2 else 0


def _read_string(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()
