"""Read ninja's dependency log, ``.ninja_deps``.

It has the files that the compiler said it opened, object by object. ninja reads the compiler's depfile after each
command and keeps it here (CMake's ``deps = gcc``). ``ninja -t deps`` can print it, but it may also rewrite the file,
and it needs a ninja; this only reads. The format, version 4 (ninja 1.9 and later; its ``deps_log.cc``): a header line,
a version, then records of a length and a body. A body is a path (its number is its place among the paths, and its
complement stands behind it), or, with the length's highest bit set, an output's number, the time of that output, and
the numbers of what was opened.
"""

from __future__ import annotations

import struct
from array import array
from functools import cached_property
from pathlib import Path, PurePosixPath

from decouple.base.errors import DecoupleError

_HEADER = b"# ninjadeps\n"
_VERSION = 4
_IS_DEPS = 1 << 31


class DependencyLog:
    """What one build directory's log says.

    ``directory`` is that directory as the build sees it.
    """

    def __init__(self, paths: list[str], records: dict[int, tuple[int, array[int]]], directory: PurePosixPath) -> None:
        self._directory = directory
        self._names = paths
        self._records = {normalise_path(directory, paths[number]): record for number, record in records.items()}

    @classmethod
    def read(cls, path: Path, directory: PurePosixPath) -> DependencyLog:
        """Read ``path``.

        A last record that a killed or running ninja left unfinished is not there, as for ninja. Raises DecoupleError
        when the file is missing, of another version or damaged.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DecoupleError(f"{path}: {error.strerror}", next_step="build stage 1, or give --preprocess") from error
        begin = len(_HEADER) + 4
        version = struct.unpack_from("<i", data, len(_HEADER))[0] if len(data) >= begin else None
        if not data.startswith(_HEADER) or version != _VERSION:
            raise DecoupleError(f"{path}: not a dependency log of version {_VERSION}", next_step="give --preprocess")
        paths: list[str] = []
        records: dict[int, tuple[int, array[int]]] = {}
        at = begin
        while at + 4 <= len(data):
            (length,) = struct.unpack_from("<I", data, at)
            at += 4
            body = data[at : at + (length & ~_IS_DEPS)]
            if len(body) < length & ~_IS_DEPS:
                break
            at += len(body)
            whole = len(body) % 4 == 0 and len(body) >= (12 if length & _IS_DEPS else 4)
            if whole and length & _IS_DEPS:
                output, time = struct.unpack_from("<IQ", body)
                opened = array("I", body[12:])
                whole = max((output, *opened)) < len(paths)
                records[output] = (time, opened)
            elif whole:
                whole = struct.unpack_from("<I", body, len(body) - 4)[0] == ~len(paths) & 0xFFFFFFFF
            if not whole:
                raise DecoupleError(f"{path}: damaged at byte {at - len(body)}", next_step="give --preprocess")
            if not length & _IS_DEPS:
                paths.append(body[:-4].rstrip(b"\0").decode("utf-8", "surrogateescape"))
        return cls(paths, records, PurePosixPath(directory))

    @cached_property
    def _paths(self) -> list[PurePosixPath]:
        return [normalise_path(self._directory, name) for name in self._names]

    def __len__(self) -> int:
        return len(self._records)

    def opened(self, output: PurePosixPath) -> tuple[PurePosixPath, ...] | None:
        """Return the files that were opened to make ``output``, its source too.

        ``output`` is an absolute path. None if unknown.
        """
        record = self._records.get(output)
        return None if record is None else tuple(self._paths[number] for number in record[1])

    def time(self, output: PurePosixPath) -> int | None:
        """Return when the recorded ``output`` was written.

        In nanoseconds since 1970; None if unknown.
        """
        record = self._records.get(output)
        return None if record is None else record[0]


def normalise_path(directory: PurePosixPath, name: str) -> PurePosixPath:
    """Make ``name`` absolute and free of ``..``; ask no file system.

    ``name`` is as the build wrote it in ``directory``.
    """
    parts: list[str] = []
    for part in (directory / name).parts:
        if part == ".." and parts and parts[-1] not in ("/", ".."):
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
