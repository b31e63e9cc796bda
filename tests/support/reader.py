"""A source of files for patches, made of one function."""

from __future__ import annotations

from collections.abc import Callable

from decouple.base.git import REGULAR


class Reader:
    """A Source made of one function ``path -> bytes, or None if there is no such file``; every file is 0o100644."""

    def __init__(self, read: Callable[[str], bytes | None]) -> None:
        self._read = read

    def mode(self, path: str) -> int | None:
        return None if self._read(path) is None else REGULAR

    def read(self, path: str) -> bytes:
        data = self._read(path)
        assert data is not None, path
        return data
