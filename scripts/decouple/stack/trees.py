"""Reading git trees and indexes: what stands at a path, what differs between two trees. No work tree."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import TREE, Repository
from decouple.base.objects import read_objects


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

    One ``git cat-file --batch`` reads only the directories that the paths are in, so the time depends on the
    paths and not on the size of the tree. A path below a *file*, or a path that is a directory, is returned as
    that entry with its own path (mode ``TREE`` for a directory), so that a caller sees what is in the way.
    Raises DecoupleError for a path with a newline, which git's batch format cannot ask for.
    """
    wanted = sorted(set(paths))
    folders: dict[str, Mapping[str, TreeEntry]] = {}
    needed: dict[str, None] = {}
    for path in wanted:
        if "\n" in path:
            raise DecoupleError(f"path {path!r} has a newline in it", next_step="no patch of this project may touch it")
        needed |= dict.fromkeys(list_parents(path))
    order = list(needed)
    requests = [f"{tree}:{folder}" for folder in order]
    for folder, answer in zip(order, read_objects(repository, requests), strict=True):
        if answer and answer.kind == "tree":
            folders[folder] = parse_tree(answer.data)
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
