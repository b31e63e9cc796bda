"""Read the functions of an object that a compiler of the host made.

They are compared as those of a device are. What decides how a function behaves: its machine code, and what its
relocations name. An address in a section is told by what stands there where that is text (the messages and file names
of checks), else by the section and the place in it.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from decouple.base import elf_files
from decouple.base.elf_files import Symbol
from decouple.base.errors import DecoupleError
from decouple.verify.kernels import bundles
from decouple.verify.kernels import sections as elf
from decouple.verify.kernels.dump import Kernel, KernelUnit, hash_code, hash_launch
from decouple.verify.kernels.sections import Section

ARCH = "x86-64"
_MACHINE = "EM_X86_64"
#: R_X86_64_PC32 and PLT32 count from the end of the four bytes that they fill (System V ABI, AMD64, 4.4).
_FROM_END = {2: 4, 4: 4}
#: A number of the compiler's own in the name of what is local: it depends on what was compiled before.
_NUMBERED = re.compile(r"\.(\d+|str\.\d+)$")
#: What clang makes of a source's path, so that names local to device code can be told apart.
_OF_PATH = re.compile(r"(__hip_cuid_|\.static\.|__static__|\.intern\.|__intern__)[0-9a-f]{8,}")


def read_host_object(path: Path, file: str, folders: Sequence[str] = ()) -> KernelUnit:
    """Read the object at ``path``, compiled from ``file``.

    A text that begins with one of ``folders``, where headers are found, or quotes it, has the name of a file below it:
    checks tell theirs. Raises DecoupleError when it is no object for this machine.
    """
    image = path.read_bytes()
    try:
        sections = elf.list_sections(image, _MACHINE)
        symbols = elf.read_symbols(image, sections)
        relocations = _Relocations(image, sections, symbols, folders)
        kernels = tuple(
            sorted(_read_functions(image, sections, symbols, relocations), key=lambda one: (one.name, one.code))
        )
        data = tuple(sorted(_read_variables(image, sections, symbols, relocations)))
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise DecoupleError(f"{path}: no object for {ARCH}: {error}", next_step="compile it again") from None
    return KernelUnit(ARCH, file, kernels, data)


def normalise_name(name: str) -> str:
    """Return a name without the numbers that a compiler gives.

    It gives them by a source's path, or by what stands before.

    >>> normalise_name("_ZL3one.static.0123456789abcdef"), normalise_name("__func__.17")
    ('_ZL3one.static.', '__func__')
    """
    return _NUMBERED.sub("", _OF_PATH.sub(r"\1", name))


def _read_functions(
    image: bytes, sections: list[Section], symbols: list[Symbol], relocations: _Relocations
) -> Iterator[Kernel]:
    for symbol in symbols:
        if symbol.kind == elf_files.FUNCTION and symbol.size and symbol.section < len(sections):
            home = sections[symbol.section]
            if home.flags & elf.EXECUTED:
                code = image[home.offset + symbol.value : home.offset + symbol.value + symbol.size]
                told = relocations.describe(symbol.section, symbol.value, symbol.value + symbol.size)
                yield Kernel(normalise_name(symbol.name), hash_code(code), hash_launch(told), symbol.size, False)


def _read_variables(
    image: bytes, sections: list[Section], symbols: list[Symbol], relocations: _Relocations
) -> Iterator[tuple[str, str]]:
    for symbol in symbols:
        if symbol.kind == elf_files.OBJECT and symbol.size and symbol.section < len(sections):
            home = sections[symbol.section]
            if home.kind != elf.NOBITS and not home.flags & elf.EXECUTED and home.name != bundles.SECTION:
                content = home.read(image)[symbol.value : symbol.value + symbol.size]
                told = relocations.describe(symbol.section, symbol.value, symbol.value + symbol.size)
                yield normalise_name(symbol.name), hash_code(content + told)


class _Relocations:
    """The relocations of an object, section by section, in the order of their places."""

    def __init__(
        self, image: bytes, sections: list[Section], symbols: list[Symbol], folders: Sequence[str] = ()
    ) -> None:
        self._image, self._sections, self._symbols = image, sections, symbols
        self._folders = sorted((f"{folder}/".encode() for folder in folders), key=len, reverse=True)
        self._of: Mapping[int, list[tuple[int, int, int, int]]] = {
            section.info: sorted(elf.iterate_relocations(image, section))
            for section in sections
            if section.kind in (elf.RELA, elf.REL)
        }

    def describe(self, section: int, begin: int, end: int) -> bytes:
        """Describe the relocations between two places: where, their type, what they name."""
        rows = self._of.get(section, [])
        at = bisect_right(rows, (begin, -1, -1, -1))
        told = []
        while at < len(rows) and rows[at][0] < end:
            offset, kind, number, addend = rows[at]
            told.append(f"{offset - begin:x} {kind:x} {self._describe_target(number, addend, kind)}")
            at += 1
        return "\n".join(told).encode()

    def _describe_target(self, number: int, addend: int, kind: int) -> str:
        symbol = self._symbols[number]
        if symbol.kind != elf_files.SECTION:
            home = self._sections[symbol.section] if 0 < symbol.section < len(self._sections) else None
            if home is not None and home.flags & elf.STRINGS:  # a text with a name of its own: .L.str.4
                return f"{self._read_text(home, symbol.value)!r} {addend}"
            return f"{normalise_name(symbol.name)} {addend}"
        home = self._sections[symbol.section]
        if home.flags & elf.STRINGS:
            return f"{home.name} {self._read_text(home, addend + _FROM_END.get(kind, 0))!r}"
        return f"{home.name} {addend}"

    def _read_text(self, home: Section, at: int) -> bytes:
        start = home.offset + at
        if not home.offset <= start < home.offset + home.size:
            raise ValueError(f"an address outside {home.name}")
        wide = home.name.rpartition(".str")[2].partition(".")[0]  # .rodata.str4.4: characters of four bytes
        width = int(wide) if wide.isdigit() else 1
        end = next(
            (
                place
                for place in range(start, home.offset + home.size, width)
                if not any(self._image[place : place + width])
            ),
            home.offset + home.size,
        )
        text = self._image[start:end]
        for folder in self._folders:
            text = text.removeprefix(folder).replace(b'"' + folder, b'"')
        return text
