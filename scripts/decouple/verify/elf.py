"""What a shared library needs and names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from decouple.base import elf_files

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_EXECUTABLE = 1  # PF_X
_TEXT = {"DT_NEEDED": "needed", "DT_SONAME": "soname", "DT_RUNPATH": "runpath", "DT_RPATH": "rpath"}


class Library(Struct, frozen=True):
    """The dynamic section of one file.

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
    """Read one 64-bit shared object or program.

    Raises DecoupleError when it is none, OSError as ``open`` does.
    """
    with elf_files.open_elf(path) as elf:
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
        rows = elf_files.parse_symbols(table.data(), strings.data(), little_endian=bool(elf.little_endian))
        for symbol in rows:
            if symbol.name and symbol.binding != elf_files.LOCAL:
                weak = symbol.binding in (elf_files.WEAK, elf_files.UNIQUE)
                if symbol.section == 0:
                    kinds["optional" if weak else "undefined"].add(symbol.name)
                else:
                    kinds["vague" if weak else "defined"].add(symbol.name)
    stacks = [segment["p_flags"] & _EXECUTABLE for segment in elf.iter_segments("PT_GNU_STACK")]
    symbols = {key: frozenset(found) for key, found in kinds.items()}
    return Library(path, soname, tuple(needed), tuple(runpath), **symbols, executable_stack=any(stacks) or not stacks)
