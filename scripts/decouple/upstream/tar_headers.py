"""tarfile with a bound on what stands before a member: half a megabyte of xz can hold a name of three gigabytes.

tarfile reads long names (GNU), extended headers (pax) and the maps of sparse files whole into memory, whatever size
they claim. Names in a source tree have at most a few hundred bytes, and nothing in one is sparse.
Source: the comment above ``TarInfo._proc_member`` in CPython's tarfile, which names it as what a subclass replaces.
"""

from __future__ import annotations

import tarfile
from typing import Any

BOUND = 1 << 20
"""Bytes of one long name or extended header."""
_BEFORE = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
DEEP = 100
"""How many of these may follow each other before a member comes; tarfile calls itself for each."""


class BoundedTarInfo(tarfile.TarInfo):
    """For ``tarfile.open(tarinfo=...)``; raises tarfile.ReadError for what is too large."""

    __slots__ = ()

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        depth = getattr(archive, "decouple_depth", 0)
        if self.type in _BEFORE:
            if not 0 <= self.size <= BOUND:
                raise tarfile.ReadError(f"a name or header of {self.size} bytes, more than {BOUND}")
            if depth >= DEEP:
                raise tarfile.ReadError(f"more than {DEEP} headers before one member")
            archive.decouple_depth = depth + 1  # type: ignore[attr-defined]
        elif self.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        try:
            member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        finally:
            archive.decouple_depth = depth  # type: ignore[attr-defined]
        return member

    def _proc_gnusparse_10(self, *_: Any) -> None:
        raise tarfile.ReadError("a sparse file")
