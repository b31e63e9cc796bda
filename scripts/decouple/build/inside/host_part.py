"""Leave of shared libraries what a host runs: code for GPUs becomes holes.

Runs in a root, with Python's own library. Arguments: a folder, and a JSON object that names for a library's file the
version of a symbol that it asks of the C library, and an older one of the same symbol that the root's C library has.
The libraries of one ROCm have 4.5 GiB, most of it code for every GPU. A build links them, and an import loads them.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: Sections in which HIP's clang and nvcc put the code of devices.
_DEVICE_CODE = {".hip_fatbin", ".nv_fatbin"}
_NEEDED_VERSIONS = 0x6FFFFFFE
_NO_BYTES = 8  # it has a size, and nothing of it stands in the file


class LibrarySection(NamedTuple):
    """A section of an ELF file; ``link`` is the number of the one with its names."""

    name: str
    kind: int
    offset: int
    size: int
    link: int


def read_sections(file: Path) -> list[LibrarySection]:
    """Read the sections of a 64-bit little-endian ELF file (ELF, chapter 4).

    Anything else has none. Raises ValueError for one that is cut or damaged.
    """
    try:
        return _read_table(file)
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"{file}: its table of sections is damaged ({error}); make the root again") from error


def _read_table(file: Path) -> list[LibrarySection]:
    with file.open("rb") as opened:
        header = opened.read(64)
        if header[:6] != b"\x7fELF\x02\x01":
            return []
        offset, (entry, count, names) = struct.unpack_from("<Q", header, 40)[0], struct.unpack_from("<3H", header, 58)
        if not count:
            return []
        opened.seek(offset)
        table = opened.read(entry * count)
        rows = [struct.unpack_from("<2I4Q2I", table, number * entry) for number in range(count)]
        opened.seek(rows[names][4])
        strings = opened.read(rows[names][5])
    return [LibrarySection(_read_string(strings, row[0]), row[1], row[4], row[5], row[6]) for row in rows]


def empty_device_code(file: Path) -> None:
    """Make the code for GPUs a hole.

    All offsets and addresses stay, the disk keeps nothing of it. Raises ValueError for a damaged library, which stays.
    """
    emptied = [section for section in read_sections(file) if section.name in _DEVICE_CODE and section.kind != _NO_BYTES]
    if not emptied:
        return
    made = file.with_name(f"{file.name}.host")
    size = file.stat().st_size
    with file.open("rb") as source, made.open("wb") as target:
        target.truncate(size)
        start = 0
        for section in sorted([*emptied, LibrarySection("", 0, size, 0, 0)], key=lambda section: section.offset):
            if section.offset + section.size > size:
                raise ValueError(f"{file}: {section.name} goes on behind the file's end; make the root again")
            _copy_range(source.fileno(), target.fileno(), start, section.offset)
            start = section.offset + section.size
    shutil.copymode(file, made)
    made.replace(file)


def ask_older(file: Path, newer: str, older: str) -> None:
    """Ask the C library for the version ``older`` where ``newer`` is asked for.

    Raises ValueError where the library asks for no such version, or has not the older name.
    """
    found = False
    sections = read_sections(file)
    with file.open("r+b") as opened:

        def read(section: LibrarySection) -> bytes:
            opened.seek(section.offset)
            return opened.read(section.size)

        for section in sections:
            if section.kind != _NEEDED_VERSIONS:
                continue
            content, names = bytearray(read(section)), read(sections[section.link])
            place = names.find(f"{older}\0".encode())  # the end of a longer name is one, too
            for at in _list_versions(content):
                if place >= 0 and _read_string(names, struct.unpack_from("<I", content, at + 8)[0]) == newer:
                    struct.pack_into("<I", content, at, compute_hash(older))
                    struct.pack_into("<I", content, at + 8, place)
                    found = True
            opened.seek(section.offset)
            opened.write(content)
    if not found:
        raise ValueError(f"{file}: it does not ask for {newer} beside {older}")


def compute_hash(name: str) -> int:
    """Compute ELF's hash of a name (ELF, chapter 5)."""
    value = 0
    for letter in name.encode():
        value = (value << 4) + letter
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high
    return value


def _list_versions(content: bytearray) -> Iterator[int]:
    """List where the versions stand that a library asks of others.

    Their layout: Linux Standard Base, symbol versioning.
    """
    start = 0
    while True:
        _, count, _, first, following = struct.unpack_from("<2H3I", content, start)
        at = start + first
        for _ in range(count):
            yield at
            at += struct.unpack_from("<I", content, at + 12)[0]
        if not following:
            return
        start += following


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        copied = os.pread(source, min(end - start, 1 << 24), start)
        if not copied:
            raise ValueError(f"a library ended at byte {start} while it was read; make the root again")
        start += os.pwrite(target, copied, start)  # fewer where the disk gets full, whose error the next one is


def _read_string(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode()


def main(folder: str, older: str) -> None:
    """Do both for each library in the folder and below."""
    asked = json.loads(older)
    for file in sorted(Path(folder).rglob("*.so*")):
        if file.is_symlink() or not file.is_file():
            continue
        if file.name in asked:
            ask_older(file, *asked[file.name])
        empty_device_code(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
