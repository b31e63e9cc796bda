"""Parse the dynamic symbols of a shared library from a window onto its bytes.

The window is a file, or parts of a zip member. Section headers are found by type, never by name: in the official wheels
the table of section names lies in the middle of 900 MB, and pyelftools asks a stream for each field. So headers and
versions are read here: structures of elf(5), 64 bit, little endian, and of the LSB (VERSYM, VERNEED, VERDEF).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from decouple.base.elf_files import LOCAL, WEAK, parse_string, parse_symbols
from decouple.base.errors import DecoupleError
from decouple.base.mangled_names import OWN_SYMBOL

#: ``size`` bytes from a position of the library.
Window = Callable[[int, int], bytes]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNSYM, _VERDEF, _VERNEED, _VERSYM = 11, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_HIDDEN = 0x8000
_MOST_VERSIONS = 0x7FFF
"""As many as an index of VERSYM can name; entries that lead back to themselves would never end."""
#: ``Ss`` stands for std::string of the old ABI (Itanium C++ ABI, 5.1.10): an operand, not the end of a longer word.
_OLD_STRING = re.compile(r"([RPKOEv]|_)Ss([A-Z0-9]|$)")


class NeededSymbol(Struct, frozen=True):
    """A symbol that a library needs from elsewhere.

    ``version`` is its version and ``library`` the one that has to have that version, if any.
    """

    name: str
    version: str | None = None
    library: str | None = None


class DynamicSymbols(Struct, frozen=True):
    """Symbols that a library exports and needs.

    ``defined`` maps names to their version, None for one without.
    """

    name: str
    defined: dict[str, str | None]
    needs: frozenset[NeededSymbol]

    @property
    def cxx11(self) -> bool | None:
        """Whether its C++ names are of libstdc++'s C++11 ABI; None when no name tells.

        Only PyTorch's own names count: a library may carry pieces of libstdc++ in both ABIs.
        """
        names = [name for name in (*self.defined, *(need.name for need in self.needs)) if OWN_SYMBOL.match(name)]
        new = sum("7__cxx11" in name for name in names)
        old = sum(_OLD_STRING.search(name) is not None for name in names)
        return None if new == old else new > old


def read_file_symbols(path: Path) -> DynamicSymbols:
    """Read the dynamic symbols of a file.

    Raises DecoupleError when it is no 64-bit ELF library or is cut short.
    """
    size = path.stat().st_size
    with path.open("rb") as file:

        def read_window(position: int, count: int) -> bytes:
            file.seek(position)
            return file.read(count)

        return read_symbols(read_window, size, path.name, str(path))


def read_symbols(window: Window, size: int, name: str, where: str) -> DynamicSymbols:
    """Read the symbols of the library ``name`` of ``size`` bytes behind ``window``.

    ``where`` names it in errors. Raises DecoupleError when it is no whole 64-bit ELF library.
    """
    try:
        return _parse_symbols(window, size, name)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise DecoupleError(
            f"{where}: not a whole 64-bit ELF library: {error}", next_step="fetch it again, or name another one"
        ) from error


def _parse_symbols(window: Window, size: int, name: str) -> DynamicSymbols:
    header = window(0, _HEADER.size)
    magic, *_ = header_fields = _HEADER.unpack(header)
    if magic[:6] != b"\x7fELF\x02\x01":
        raise ValueError("its first bytes are others")
    offset, count = header_fields[6], header_fields[12]
    if offset + count * _SECTION.size > size:
        raise ValueError(f"it ends after {size} bytes, its section headers at {offset + count * _SECTION.size}")
    sections = list(_SECTION.iter_unpack(window(offset, count * _SECTION.size)))

    def read_section(section: tuple[int, ...]) -> bytes:
        if section[4] + section[5] > size:
            raise ValueError(f"it ends after {size} bytes, a section at {section[4] + section[5]}")
        return window(section[4], section[5])

    def find_content(kind: int) -> bytes:
        found = next((section for section in sections if section[1] == kind), None)
        return read_section(found) if found else b""

    table = next((section for section in sections if section[1] == _DYNSYM), None)
    if table is None:
        raise ValueError("no dynamic symbols")
    strings = sections[table[6]]
    # The symbols come last: a window that decodes onward has then passed over what lies before them only once.
    names, symbols = read_section(strings), read_section(table)
    versions = find_content(_VERSYM)
    needed_versions = dict(_parse_needed_versions(find_content(_VERNEED), names))
    defined_versions = dict(_parse_defined_versions(find_content(_VERDEF), names))
    version_indexes = struct.unpack(f"<{len(versions) // 2}H", versions) if versions else ()
    defined: dict[str, str | None] = {}
    needs: set[NeededSymbol] = set()
    for index, symbol in enumerate(parse_symbols(symbols, names)):
        if not symbol.name or symbol.binding == LOCAL:
            continue
        version_index = version_indexes[index] & ~_HIDDEN if version_indexes else 1
        if symbol.section:
            defined[symbol.name] = defined_versions.get(version_index)
        elif symbol.binding != WEAK:
            version, library = needed_versions.get(version_index, (None, None))
            needs.add(NeededSymbol(symbol.name, version, library))
    return DynamicSymbols(name, defined, frozenset(needs))


def _parse_needed_versions(data: bytes, names: bytes) -> Iterator[tuple[int, tuple[str, str]]]:
    position = found = 0
    while data:
        _, count, file, first, onward = struct.unpack_from("<HHIII", data, position)
        entry = position + first
        for _ in range(count):
            found += 1
            if found > _MOST_VERSIONS:
                raise ValueError(f"more than {_MOST_VERSIONS} versions")
            _, _, mark, name, next_entry = struct.unpack_from("<IHHII", data, entry)
            yield mark & ~_HIDDEN, (parse_string(names, name), parse_string(names, file))
            entry += next_entry
        if not onward:
            return
        position += onward


def _parse_defined_versions(data: bytes, names: bytes) -> Iterator[tuple[int, str]]:
    position = 0
    while data:
        _, flags, mark, _, _, first, onward = struct.unpack_from("<HHHHIII", data, position)
        if not flags & 1:  # the file's own name is no version
            (name,) = struct.unpack_from("<I", data, position + first)
            yield mark, parse_string(names, name)
        if not onward:
            return
        position += onward
