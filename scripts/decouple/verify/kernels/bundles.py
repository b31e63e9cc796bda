"""Read the bundles in which clang puts AMD's device code.

Each lies in an object or library and has an ELF image per architecture. A bundle is its magic, the number of entries,
the entries (offset from the bundle's begin, size, name), then the images (Clang's "Offload Bundler", "Bundled Binary
File Layout"). In a library those of its objects follow each other.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.elf_files import open_elf
from decouple.base.errors import DecoupleError

SECTION = ".hip_fatbin"
_MAGIC, _PACKED = b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB"
_COUNT, _ENTRY = struct.Struct("<Q"), struct.Struct("<QQQ")
_MEND = "compile it with --no-offload-compress, or with another clang"


class BundleEntry(Struct, frozen=True):
    """An image: its name as it stands, and its offset from the bundle's begin."""

    name: str
    offset: int
    size: int

    @property
    def arch(self) -> str:
        """The architecture ("gfx90a"); empty for the host's own entry, which is empty."""
        return "" if self.name.startswith("host") else self.name.rpartition("--")[2]


class OffloadBundle(Struct, frozen=True):
    """A bundle: where it begins in the content, and its entries."""

    begin: int
    entries: tuple[BundleEntry, ...]


def list_bundles(content: bytes | mmap.mmap, begin: int, end: int) -> Iterator[OffloadBundle]:
    """List the bundles in a section of ``content``.

    Raises ValueError where it is of another layout.
    """
    at = content.find(_MAGIC, begin, end)
    if content[begin : begin + len(_PACKED)] == _PACKED:
        raise ValueError("its images are compressed")
    if at < 0 and any(content[begin:end]):
        raise ValueError("no bundle of clang's")
    while at >= 0:
        bundle = OffloadBundle(at, tuple(_list_entries(content, at, end)))
        yield bundle
        at = content.find(_MAGIC, max([at + 1, *(at + entry.offset + entry.size for entry in bundle.entries)]), end)


def _list_entries(content: bytes | mmap.mmap, begin: int, end: int) -> Iterator[BundleEntry]:
    (count,) = _COUNT.unpack_from(content, begin + len(_MAGIC))
    at = begin + len(_MAGIC) + _COUNT.size
    for _ in range(count):
        offset, size, length = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        if at + length > end or begin + offset + size > end:
            raise ValueError("an entry is cut short")
        yield BundleEntry(content[at : at + length].decode(), offset, size)
        at += length


def keep_architectures(library: Path, archs: Sequence[str]) -> None:
    """Leave in each bundle of ``library`` the images for ``archs`` ("gfx90a").

    They stay at their places; the others become zeros. A bundle without one of them stays as it is. Raises
    DecoupleError where the layout is not known.
    """
    with open_elf(library, "name a library of torch_hip") as elf:
        found = [
            (int(section["sh_offset"]), int(section["sh_size"]))
            for section in elf.iter_sections()
            if section.name == SECTION
        ]
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as text:
        for offset, size in found:
            try:
                bundles = list(list_bundles(text, offset, offset + size))
            except (ValueError, struct.error) as error:
                raise DecoupleError(f"{library}: its device code: {error}", next_step=_MEND) from error
            for bundle in bundles:
                if set(archs) <= {entry.arch for entry in bundle.entries}:
                    _rewrite_bundle(text, bundle, archs)


def _rewrite_bundle(text: mmap.mmap, bundle: OffloadBundle, archs: Sequence[str]) -> None:
    kept = [entry for entry in bundle.entries if not entry.arch or entry.arch in archs]
    for entry in bundle.entries:
        if entry not in kept:
            text[bundle.begin + entry.offset : bundle.begin + entry.offset + entry.size] = bytes(entry.size)
    head = _MAGIC + _COUNT.pack(len(kept))
    for entry in kept:
        head += _ENTRY.pack(entry.offset, entry.size, len(entry.name.encode())) + entry.name.encode()
    whole = len(_MAGIC) + _COUNT.size + sum(_ENTRY.size + len(entry.name.encode()) for entry in bundle.entries)
    text[bundle.begin : bundle.begin + whole] = head.ljust(whole, b"\0")
