"""Restore the order of a library's program headers, which patchelf changes.

patchelf sorts them by their place in the file. Where the linker was lld (Debian's CUDA build), the unwinding table then
stands before the code. PyTorch's unwinder ends a library at the last segment that it has met by then, and finds no
frame of C++ in it (torch/csrc/profiler/unwind/unwind.cpp, ``refreshLibraries``, upstream 2.6.0). Linkers themselves
write the loadable ones first. pyelftools only reads, so the table is moved here, as bytes.
"""

from __future__ import annotations

import struct
from pathlib import Path

from decouple.base.errors import DecoupleError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # ELF-64 Object File Format, version 1.5, figure 2
_ENTRY = 56
_LOAD, _INTERPRETER, _TABLE = 1, 3, 6  # PT_LOAD; PT_INTERP and PT_PHDR must stand before it (gABI, program header)


def put_loadable_first(library: Path) -> None:
    """Move the loadable segments of ``library`` before those that describe them.

    Their own order stays, and so does that of the rest. Only a 64-bit little-endian library is changed.
    Raises DecoupleError where it ends before its headers do.
    """
    with library.open("r+b") as file:
        start = file.read(_HEADER.size)
        if len(start) < _HEADER.size or start[:6] != b"\x7fELF\x02\x01":
            return
        fields = _HEADER.unpack(start)
        offset, size, count = fields[5], fields[9], fields[10]
        if size != _ENTRY:
            return
        if offset + size * count > library.stat().st_size:
            raise DecoupleError(
                f"{library}: cut short: no {count} program headers", next_step="fetch or build it again"
            )
        file.seek(offset)
        table = file.read(size * count)
        entries = [table[position : position + size] for position in range(0, len(table), size)]
        entries.sort(key=_rank_segment)
        file.seek(offset)
        file.write(b"".join(entries))


def _rank_segment(entry: bytes) -> int:
    (kind,) = struct.unpack_from("<I", entry)
    return {_TABLE: 0, _INTERPRETER: 1, _LOAD: 2}.get(kind, 3)
