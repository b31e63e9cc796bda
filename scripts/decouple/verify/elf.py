"""What a shared library needs and names: pyelftools finds the sections, ``struct`` reads the symbol table.

libtorch_cpu has more than 100,000 dynamic symbols; one unpack per table instead of one object per symbol makes the
audit of a whole wheel a matter of seconds.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from decouple.base.elf_files import open_elf

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

#: Elf64_Sym (elf(5)): st_name, st_info, st_other, st_shndx, st_value, st_size.
_SYMBOL = {"<": struct.Struct("<IBBHQQ"), ">": struct.Struct(">IBBHQQ")}
_WEAK, _UNIQUE = 2, 10
_EXECUTABLE = 1  # PF_X
_TEXT = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}


class Library(Struct, frozen=True):
    """The dynamic face of one file.

    ``defined`` are strong global symbols, ``vague`` weak or unique ones, which the linker merges (inline functions,
    templates); ``undefined`` must come from elsewhere, ``optional`` may stay away. ``executable_stack``: whoever opens
    it must make the stack executable (PT_GNU_STACK, elf(5); without it, too).
    """

    path: Path
    soname: str | None
    needed: tuple[str, ...]
    runpath: tuple[str, ...]
    defined: frozenset[str]
    vague: frozenset[str]
    undefined: frozenset[str]
    optional: frozenset[str]
    executable_stack: bool = False

    @property
    def name(self) -> str:
        """Return the name others link it by."""
        return self.soname or self.path.name


def is_elf(path: Path) -> bool:
    """Return whether the file begins with ELF's magic number."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def read_library(path: Path) -> Library:
    """Read one 64-bit shared object or program. Raises DecoupleError when it is none, OSError as ``open`` does."""
    with open_elf(path) as elf:
        return _parse_library(path, elf)


def _parse_library(path: Path, elf: ELFFile) -> Library:
    from elftools.elf.dynamic import DynamicSection

    soname: str | None = None
    needed: list[str] = []
    runpath: list[str] = []
    dynamic = elf.get_section_by_name(".dynamic")
    if isinstance(dynamic, DynamicSection):
        for tag in dynamic.iter_tags():
            kind = tag.entry.d_tag
            if kind in _TEXT:  # pyelftools puts the text into an attribute named after the tag
                text: str = getattr(tag, _TEXT[kind])
                if kind == "DT_NEEDED":
                    needed.append(text)
                elif kind == "DT_SONAME":
                    soname = text
                else:
                    runpath += text.split(":")
    kinds: dict[str, set[str]] = {"defined": set(), "vague": set(), "undefined": set(), "optional": set()}
    table, strings = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".dynstr")
    if table is not None and strings is not None:
        names = strings.data()
        for offset, info, _, index, _, _ in _SYMBOL["<" if elf.little_endian else ">"].iter_unpack(table.data()):
            if offset:
                name = names[offset : names.index(b"\0", offset)].decode("utf-8", "replace")
                weak = info >> 4 in (_WEAK, _UNIQUE)
                if info >> 4 == 0:  # local
                    continue
                kinds[("optional" if weak else "undefined") if index == 0 else "vague" if weak else "defined"].add(name)
    stacks = [segment["p_flags"] & _EXECUTABLE for segment in elf.iter_segments("PT_GNU_STACK")]
    symbols = {key: frozenset(found) for key, found in kinds.items()}
    return Library(path, soname, tuple(needed), tuple(runpath), **symbols, executable_stack=any(stacks) or not stacks)
