"""Between trees and resolutions: what a settled tree says of a conflict, and the tree that a resolution makes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from decouple.base.git import REGULAR, Repository
from decouple.patch.lines import lines_of
from decouple.rebase import settled
from decouple.rebase.carry import Merge, Step, merged
from decouple.rebase.resolutions import Resolution, SettledFile, find
from decouple.stack.trees import TreeEntry, blobs, changed, differences, look_up, written


def conflicts(repository: Repository, step: Step, merge: Merge) -> tuple[str, ...]:
    """What stands in the way of a patch, as keys: each conflict in a text, else the kind of the conflict."""
    entries = look_up(repository, merge.tree, [path for path, _ in merge.conflicts])
    texts = blobs(repository, [entry.id for entry in entries.values()])
    found: list[str] = []
    for path, kind in merge.conflicts:
        keys = settled.conflicts(texts[entries[path].id]) if path in entries else ()
        found += keys or [_key(kind, path)]
    return tuple(found) or (_key("place", step.patch.sha256),)


def recall(repository: Repository, known: Sequence[Resolution], step: Step, tip: str) -> Resolution | None:
    """The resolution of the conflicts that the patch has on ``tip``."""
    identity = step.patch.header.decouple_id or step.patch.name
    if not any(one.patch == identity for one in known):
        return None
    keys = conflicts(repository, step, merged(repository, step, tip))
    return next(iter(find(known, identity, keys)), None)


def resolution_of(
    repository: Repository, step: Step, tip: str, tree: str | None, made_on: str, reason: str, since: str = ""
) -> Resolution:
    """The memory of a settled conflict: ``tree`` is what a person made of it, None where the patch was left out."""
    merge = merged(repository, step, tip)
    keys = conflicts(repository, step, merge)
    identity = step.patch.header.decouple_id or step.patch.name
    files = _files(repository, merge.tree, tree) if tree else ()
    return Resolution(identity, step.patch.name, made_on, keys, tree is None, reason, since, files)


def replayed(
    repository: Repository, resolution: Resolution, step: Step, tip: str
) -> Mapping[str, TreeEntry | None] | None:
    """What the resolution changes on ``tip``; None where its text does not find its places."""
    merge = merged(repository, step, tip)
    changes = changed(repository, repository.tree_of(tip), merge.tree)
    entries = look_up(repository, merge.tree, [file.path for file in resolution.file])
    texts = blobs(repository, [entry.id for entry in entries.values()])
    for file in resolution.file:
        entry = entries.get(file.path)
        if file.gone:
            changes[file.path] = None
            continue
        data = (
            b"".join(line.encode("utf-8", "surrogateescape") for line in file.lines)
            if file.lines
            else settled.replay(texts[entry.id], file.change)
            if entry
            else None
        )
        if data is None:
            return None
        changes[file.path] = TreeEntry(entry.mode if entry else REGULAR, written(repository, data))
    left = {path for path, _ in merge.conflicts} - {file.path for file in resolution.file}
    return None if left & look_up(repository, merge.tree, sorted(left)).keys() else changes


def _files(repository: Repository, merge_tree: str, tree: str) -> tuple[SettledFile, ...]:
    found = []
    for change in differences(repository, merge_tree, tree):
        if change.new is None:
            found.append(SettledFile(change.path, gone=True))
            continue
        data = blobs(repository, [entry.id for entry in (change.old, change.new) if entry])
        new = data[change.new.id]
        if change.old is None:
            lines = tuple(line.decode("utf-8", "surrogateescape") for line in lines_of(new))
            found.append(SettledFile(change.path, lines=lines))
        else:
            found.append(SettledFile(change.path, settled.record(data[change.old.id], new)))
    return tuple(found)


def _key(kind: str, what: str) -> str:
    return f"conflict-{hashlib.sha256(f'{kind} {what}'.encode()).hexdigest()[:24]}"
