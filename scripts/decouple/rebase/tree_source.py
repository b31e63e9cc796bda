"""Read the files of a git tree as ``patch.apply`` asks for them."""

from __future__ import annotations

from collections.abc import Sequence

from decouple.base.git import SUBMODULE, TREE, Repository
from decouple.stack.trees import TreeEntry, list_parents, read_blobs, read_entries


class TreeSource:
    """The files of a git tree for ``patch.apply``.

    Those named at first are read at once, others when asked for.
    """

    def __init__(self, repository: Repository, tree: str, paths: Sequence[str] = ()) -> None:
        self._repository, self._tree = repository, tree
        reach = {*paths, *(folder for path in paths for folder in list_parents(path) if folder)}
        entries = read_entries(repository, tree, reach)
        self._entries: dict[str, TreeEntry | None] = {path: entries.get(path) for path in reach}
        self._blobs = read_blobs(
            repository, [entry.id for entry in entries.values() if entry.mode not in (SUBMODULE, TREE)]
        )

    def mode(self, path: str) -> int | None:
        """See ``Source``."""
        if path not in self._entries:
            self._entries[path] = read_entries(self._repository, self._tree, [path]).get(path)
        entry = self._entries[path]
        return None if entry is None else entry.mode

    def read(self, path: str) -> bytes:
        """See ``Source``."""
        entry = self._entries[path]
        assert entry is not None, path
        if entry.id not in self._blobs:
            self._blobs |= read_blobs(self._repository, [entry.id])
        return self._blobs[entry.id]
