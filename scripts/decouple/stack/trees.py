"""Read git trees and indexes: entries and differences, without a work tree."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import TREE, Reader, Repository
from decouple.base.objects import keep_object_reader, read_objects

_KNOWN: WeakKeyDictionary[Reader, dict[str, Mapping[str, TreeEntry]]] = WeakKeyDictionary()
"""By reader and id: the folders that it read, for as long as it is open."""


class TreeEntry(Struct, frozen=True):
    """A file, link or submodule in a tree: its mode and its object id."""

    mode: int
    """As in `base.git`: 0o100644, ..."""
    id: str


class Change(Struct, frozen=True):
    """What happened to one path between two trees; None stands for "is not there"."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None


def hash_blob(data: bytes) -> str:
    """Return git's name for ``data`` as a blob.

    SHA-1 over a header and the bytes; see git hash-object(1).
    """
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def write_blob(repository: Repository, data: bytes) -> str:
    """Put a blob with ``data`` into the repository; returns its id."""
    return repository.run("hash-object", "-w", "--stdin", stdin=data).decode().strip()


def read_entries(repository: Repository, tree: str, paths: Iterable[str]) -> dict[str, TreeEntry]:
    """Read what ``tree`` holds at ``paths``; absent paths are left out.

    One ``git cat-file --batch`` reads only the directories on the way to the paths, so the time depends on the
    paths and not on the size of the tree. A path below a *file*, or a path that is a directory, is returned as
    that entry with its own path (mode ``TREE`` for a directory), so that a caller sees what is in the way.
    Raises DecoupleError for a path with a newline, which git's batch format cannot ask for.
    """
    wanted = sorted(set(paths))
    needed: dict[str, None] = {}
    for path in wanted:
        if "\n" in path:
            raise DecoupleError(f"path {path!r} has a newline in it", next_step="no patch of this project may touch it")
        needed |= dict.fromkeys(list_parents(path))
    folders = _read_folders(repository, tree, needed)
    entries: dict[str, TreeEntry] = {}
    for path in wanted:
        for step in (*reversed(list_parents(path)[:-1]), path):
            folder, _, name = step.rpartition("/")
            entry = folders[folder].get(name) if folder in folders else None
            if entry is None:
                break
            if entry.mode != TREE or step == path:
                entries[step] = entry
                break
    return entries


def _read_folders(repository: Repository, tree: str, names: Iterable[str]) -> dict[str, Mapping[str, TreeEntry]]:
    """Read those of the folders ``names`` that ``tree`` has, the root as "".

    ``names`` has the folders above each, too. Level by level, by the ids that the level above gives: most folders are
    the same in two commits of a series, and what one reader read once is not read again.
    """
    with keep_object_reader(repository):
        assert repository.reader
        known = _KNOWN.setdefault(repository.reader, {})
        (root,) = repository.reader.read_objects([f"{tree}^{{tree}}"])
        folders = {"": parse_tree(root.data)} if root else {}
        for _, level in itertools.groupby(sorted(names, key=_count_levels), key=_count_levels):
            ids: dict[str, str] = {}
            for name in level:
                above, _, last = name.rpartition("/")
                entry = folders[above].get(last) if name and above in folders else None
                if entry and entry.mode == TREE:
                    ids[name] = entry.id
            asked = sorted(set(ids.values()) - known.keys())
            for identity, answer in zip(asked, repository.reader.read_objects(asked), strict=True):
                if answer:
                    known[identity] = parse_tree(answer.data)
            folders |= {name: known[identity] for name, identity in ids.items() if identity in known}
    return folders


def _count_levels(folder: str) -> int:
    return folder.count("/") + 1 if folder else 0


def read_blobs(repository: Repository, ids: Iterable[str]) -> dict[str, bytes]:
    """Read the contents of blobs, in one call.

    Raises DecoupleError for an id that the repository does not have.
    """
    order = sorted(set(ids))
    contents: dict[str, bytes] = {}
    for identity, answer in zip(order, read_objects(repository, order), strict=True):
        if answer is None:
            raise DecoupleError(f"{repository.root}: object {identity} is missing", next_step="apply the series anew")
        contents[identity] = answer.data
    return contents


@functools.lru_cache(maxsize=1024)
def parse_tree(body: bytes) -> Mapping[str, TreeEntry]:
    """Parse one tree object: ``mode SP name NUL 20-byte id``, repeated.

    From commit to commit of a series most folders stay the same, so what was parsed is kept.
    """
    entries: dict[str, TreeEntry] = {}
    position = 0
    while position < len(body):
        blank = body.index(b" ", position)
        nul = body.index(b"\0", blank)
        name = body[blank + 1 : nul].decode("utf-8", "surrogateescape")
        entries[name] = TreeEntry(int(body[position:blank], 8), body[nul + 1 : nul + 21].hex())
        position = nul + 21
    return entries


def read_index(repository: Repository, paths: Sequence[str], index: Path | None = None) -> dict[str, TreeEntry]:
    """Read what the index holds at ``paths`` (all of it for no paths)."""
    entries: dict[str, TreeEntry] = {}
    for line in repository.run("ls-files", "-s", "-z", "--", *paths, index=index).split(b"\0")[:-1]:
        meta, path = line.split(b"\t", 1)
        mode, identity, _ = meta.decode().split(" ")
        entries[path.decode("utf-8", "surrogateescape")] = TreeEntry(int(mode, 8), identity)
    return entries


def compare_trees(repository: Repository, old: str, new: str) -> list[Change]:
    """Return each path whose content or mode differs between two trees or commits.

    Renames are not folded.
    """
    if old == new:
        return []
    raw = repository.run("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, new)
    fields = raw.split(b"\0")
    changes = []
    for meta, path in zip(fields[0:-1:2], fields[1::2], strict=False):
        old_mode, new_mode, old_id, new_id, _ = meta[1:].decode().split(" ")
        changes.append(
            Change(
                path.decode("utf-8", "surrogateescape"),
                TreeEntry(int(old_mode, 8), old_id) if old_mode != "000000" else None,
                TreeEntry(int(new_mode, 8), new_id) if new_mode != "000000" else None,
            )
        )
    return changes


def read_changes(repository: Repository, old: str, new: str) -> dict[str, TreeEntry | None]:
    """Return what turns ``old`` into ``new``: path -> entry, None where it is gone."""
    return {change.path: change.new for change in compare_trees(repository, old, new)}


def find_blocker(entries: Mapping[str, TreeEntry], path: str) -> str | None:
    """Return the entry that keeps a file from standing at ``path``.

    A file above it, or a directory in its place.
    """
    entry = entries.get(path)
    if entry is not None and entry.mode == TREE:
        return path
    return next((parent for parent in list_parents(path) if parent in entries and entries[parent].mode != TREE), None)


@functools.lru_cache(maxsize=65536)
def _list_folders_above(folder: str) -> tuple[str, ...]:
    return (folder, *_list_folders_above(folder.rpartition("/")[0])) if folder else ("",)


def list_parents(path: str) -> tuple[str, ...]:
    """Return the folders above ``path``, nearest first, the root as "".

    A push asks thousands of times, so no Path objects are made.
    """
    return _list_folders_above(path.rpartition("/")[0])
