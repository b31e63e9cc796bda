"""Read ELF files by pyelftools; report a damaged one in one line.

pyelftools trusts most of what a file says, so what it raises is caught.

The tables of symbols are read by ``struct``: a library of PyTorch has more than 100,000 symbols, the device images of
a build hold more still, and one unpack per table instead of one object per symbol makes an audit a matter of seconds.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from decouple.base.errors import DecoupleError

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_FAULTS = (
    struct.error, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError,
)  # fmt: skip
"""What pyelftools raises for a damaged file beside its own: it trusts most fields, and asks for as much memory as a
section says it has. So is an OSError without a name."""

#: Elf64_Sym (elf(5)): st_name, st_info, st_other, st_shndx, st_value, st_size.
_LITTLE, _BIG = struct.Struct("<IBBHQQ"), struct.Struct(">IBBHQQ")

LOCAL, WEAK, UNIQUE = 0, 2, 10
"""Bindings of symbols (elf(5); STB_GNU_UNIQUE is of the GNU ABI)."""
OBJECT, FUNCTION, SECTION = 1, 2, 3
"""Types of symbols."""


class Symbol(NamedTuple):
    """A row of a symbol table; ``section`` is 0 if undefined, ``other`` is st_other."""

    name: str
    binding: int
    kind: int
    other: int
    section: int
    value: int
    size: int


@contextlib.contextmanager
def open_elf(path: Path, mend: str = "build it again") -> Iterator[ELFFile]:
    """Open an ELF file for pyelftools; ``mend`` is the next step to tell.

    Raises DecoupleError for what the file turns out to be in the ``with``, OSError when it cannot be opened.
    """
    with path.open("rb") as file:
        try:
            with parse_elf(file) as elf:
                yield elf
        except ValueError as error:
            raise DecoupleError(f"{path}: not a readable ELF file: {error}", next_step=mend) from error


@contextlib.contextmanager
def parse_elf(stream: IO[bytes]) -> Iterator[ELFFile]:
    """Parse a stream by pyelftools.

    Raises ValueError for what it turns out to be in the ``with``.
    """
    from elftools.common.exceptions import ELFError  # of an extra, which not every command has
    from elftools.elf.elffile import ELFFile

    try:
        yield ELFFile(stream)
    except (ELFError, *_FAULTS) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise ValueError(str(error)) from error


def parse_symbols(table: bytes, names: bytes, *, little_endian: bool = True) -> Iterator[Symbol]:
    """Parse a table of symbols of a 64-bit file by the table of their names.

    The nameless ones are included.
    """
    for start, info, other, section, value, size in (_LITTLE if little_endian else _BIG).iter_unpack(table):
        name = parse_string(names, start) if start else ""
        yield Symbol(name, info >> 4, info & 15, other, section, value, size)


def parse_string(names: bytes, start: int) -> str:
    """Parse the name that begins at ``start``. Raises ValueError where none ends."""
    return names[start : names.index(b"\0", start)].decode("utf-8", "replace")
