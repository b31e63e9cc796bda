"""Read resolutions from settled trees, and make trees from resolutions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs

from decouple.base.git import REGULAR, Repository
from decouple.patch.lines import split_lines
from decouple.rebase import resolution_encoding
from decouple.rebase.carry import Merge, Step, find_own_name, is_stopped_by_conflicts, merge_patch
from decouple.rebase.resolutions import Resolution, SettledFile, find_resolutions
from decouple.stack.trees import TreeEntry, compare_trees, read_blobs, read_changes, read_entries, write_blob


def list_conflicts(
    repository: Repository, step: Step, merge: Merge, tip: str, read: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return what stands in the way of a patch, as keys.

    One for each conflict in a text; else for the kind of the conflict and the file of the release. Where something else
    stopped the patch, or has the name of a file in conflict, that is known by all that it meets: the patch, and the
    files that merging changes or that its recipe has ``read``.
    """
    paths = [path for path, _ in merge.conflicts]
    entries, there = (read_entries(repository, tree, paths) for tree in (merge.tree, tip))
    texts = read_blobs(repository, [entry.id for entry in entries.values()])
    conflict_keys: list[str] = []
    for path, kind in merge.conflicts:
        keys = resolution_encoding.list_conflict_keys(texts[entries[path].id]) if path in entries else ()
        conflict_keys += keys or [_hash_conflict(kind, path, *([there[path].id] if path in there else []))]
    elsewhere = any(find_own_name(path) != path for path in paths)
    if not conflict_keys or elsewhere or not is_stopped_by_conflicts(repository, step, tip, repository.state_folder):
        met = _list_met_files(repository, step, merge, tip, read)
        conflict_keys.append(_hash_conflict("place", step.patch.sha256, *met))
    return tuple(conflict_keys)


def recall_resolution(
    repository: Repository, known: Sequence[Resolution], step: Step, tip: str, read: Iterable[str] = ()
) -> Resolution | None:
    """Find the resolution of the conflicts that the patch has on ``tip``.

    ``read``: what its recipe reads.
    """
    identity = step.patch.identity
    if not any(resolution.patch == identity for resolution in known):
        return None
    keys = list_conflicts(repository, step, merge_patch(repository, step, tip), tip, read)
    return next(iter(find_resolutions(known, identity, keys)), None)


def make_resolution(
    repository: Repository,
    step: Step,
    tip: str,
    tree: str | None,
    made_on: str,
    reason: str,
    since: str = "",
    read: Iterable[str] = (),
) -> Resolution:
    """Make the record of a settled conflict.

    ``tree`` is what a person made of it, None where the patch was left out; ``read`` what its recipe reads.
    """
    merge = merge_patch(repository, step, tip)
    keys = list_conflicts(repository, step, merge, tip, read)
    identity = step.patch.identity
    reason = reason.encode("utf-8", "replace").decode()  # a command line may have any bytes, TOML not
    files = _make_settled_files(repository, merge, tree) if tree else ()
    return Resolution(identity, step.patch.name, made_on, keys, tree is None, reason, since, files)


def replay_resolution(
    repository: Repository, resolution: Resolution, step: Step, tip: str
) -> Mapping[str, TreeEntry | None] | None:
    """Return what the resolution changes on ``tip``.

    None where its text does not find its places.
    """
    merge = merge_patch(repository, step, tip)
    changes = read_changes(repository, repository.read_tree_id(tip), merge.tree)
    entries = read_entries(repository, merge.tree, [file.path for file in resolution.file])
    texts = read_blobs(repository, [entry.id for entry in entries.values()])
    for file in resolution.file:
        entry = entries.get(file.path)
        if file.gone:
            changes[file.path] = None
            continue
        data = _read_whole_file(file)
        if data is None and entry:
            data = resolution_encoding.replay_changes(texts[entry.id], file.change)
        if data is None:
            return None
        mode = int(file.mode, 8) if file.mode else entry.mode if entry else REGULAR
        changes[file.path] = TreeEntry(mode, write_blob(repository, data))
    left = {path for path, _ in merge.conflicts} - {file.path for file in resolution.file}
    return None if left & read_entries(repository, merge.tree, sorted(left)).keys() else changes


def _make_settled_files(repository: Repository, merge: Merge, tree: str) -> tuple[SettledFile, ...]:
    """Record each file that is otherwise in ``tree``.

    And each in conflict that a person left as git had it.
    """
    files = []
    changed = compare_trees(repository, merge.tree, tree)
    left = {path for path, _ in merge.conflicts} - {change.path for change in changed}
    files += [SettledFile(path) for path in sorted(read_entries(repository, merge.tree, sorted(left)))]
    for change in changed:
        if change.new is None:
            files.append(SettledFile(change.path, gone=True))
            continue
        data = read_blobs(repository, [entry.id for entry in (change.old, change.new) if entry])
        new = data[change.new.id]
        mode = "" if change.new.mode == (change.old.mode if change.old else REGULAR) else f"{change.new.mode:o}"
        if change.old is None:
            made = _record_whole_file(change.path, new)
        else:
            made = SettledFile(change.path, resolution_encoding.record_changes(data[change.old.id], new))
        files.append(structs.replace(made, mode=mode))
    return tuple(sorted(files, key=lambda file: file.path))


def _record_whole_file(path: str, data: bytes) -> SettledFile:
    try:
        return SettledFile(path, lines=tuple(split_lines(data.decode())))
    except UnicodeDecodeError:
        return SettledFile(path, hex=data.hex())


def _read_whole_file(file: SettledFile) -> bytes | None:
    if file.hex is not None:
        return bytes.fromhex(file.hex)
    return None if file.lines is None else "".join(file.lines).encode()


def _list_met_files(repository: Repository, step: Step, merge: Merge, tip: str, read: Iterable[str]) -> list[str]:
    """Return path and id of each file that the patch meets.

    It names them, the merge changes them, or its recipe has ``read`` them.
    """
    changed = (change.path for change in compare_trees(repository, repository.read_tree_id(tip), merge.tree))
    there = read_entries(repository, tip, {*step.patch.touched_paths, *changed, *read})
    return [f"{path} {entry.id}" for path, entry in sorted(there.items())]


def _hash_conflict(*words: str) -> str:
    return f"conflict-{hashlib.sha256(' '.join(words).encode('utf-8', 'surrogateescape')).hexdigest()[:24]}"
