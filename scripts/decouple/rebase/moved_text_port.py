"""Carry upstream's changes of text that a patch moves.

The change goes to the copy, and the old place is emptied as before. A 3-way merge knows the move as a deletion and
calls any change of those lines a conflict; who settles it with "ours" loses what upstream mended. Here the moved lines
are found in the release (``Across.place``), what upstream did to them is merged into the copy, and the rest of the file
is merged as if upstream had left them alone. Both must merge without a conflict, or a person is shown what upstream
did.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from decouple.base.git import Repository
from decouple.patch.lines import split_lines
from decouple.patch.moved_runs import MovedRun, find_moved_runs
from decouple.patch.parse import Patch
from decouple.rebase import adjacent_additions
from decouple.rebase.line_map import LineMap
from decouple.rebase.verdicts import Note


class FileTexts(Struct, frozen=True):
    """A file before the patch, after it, and in the release that it is carried to."""

    old: bytes
    patched: bytes
    new: bytes


class PortResult(Struct, frozen=True):
    """The text of each file that changes, and what was brought where."""

    texts: Mapping[str, bytes]
    notes: tuple[Note, ...]


def port_changes(
    repository: Repository, patch: Patch, conflicts: Mapping[str, FileTexts], merged: Mapping[str, bytes]
) -> PortResult | None:
    """Settle conflicts in files where upstream changed moved text.

    Its changes are brought to where the text went. ``merged`` has the text of each file that the patch moves text to,
    as the merge left it. None where a conflict is no such thing, or where a merge is not clean.
    """
    runs = [moved_run for moved_run in find_moved_runs(patch) if moved_run.source in conflicts]
    texts = dict(merged)
    notes: list[Note] = []
    for path, text in conflicts.items():
        mine = [moved_run for moved_run in runs if moved_run.source == path and moved_run.target in texts]
        settled = _settle_file(repository, patch, path, text, mine)
        if settled is None:
            return None
        across, data, changed = settled
        if not changed:
            return None
        for moved_run in changed:
            copy = _update_copy(repository, moved_run, across, texts[moved_run.target])
            if copy is None:
                return None
            texts[moved_run.target] = copy
            notes.append(_make_note(moved_run, across, "brought there"))
        texts[path] = data
    return PortResult(texts, tuple(notes))


def explain_unported(patch: Patch, conflicts: Mapping[str, FileTexts]) -> tuple[Note, ...]:
    """Note what upstream did to moved text that could not be brought to the copy."""
    notes = []
    for moved_run in find_moved_runs(patch):
        if moved_run.source in conflicts:
            text = conflicts[moved_run.source]
            across = LineMap(split_lines(text.old), split_lines(text.new))
            if across.format_diff(*_find_range(moved_run)):
                notes.append(_make_note(moved_run, across, "bring this there by hand"))
    return tuple(notes)


def _settle_file(
    repository: Repository, patch: Patch, path: str, text: FileTexts, runs: list[MovedRun]
) -> tuple[LineMap, bytes, list[MovedRun]] | None:
    """Merge the file without upstream's changes of moved runs; returns those runs too."""
    across = LineMap(split_lines(text.old), split_lines(text.new))
    changed = []
    calm = list(across.new)
    for one in sorted(runs, key=lambda run: -run.gone.start):
        start, stop = _find_range(one)
        place = across.find_place(start, stop)
        if place is None:
            return None
        if across.new[slice(*place)] != across.old[start:stop]:
            calm[slice(*place)] = across.old[start:stop]
            changed.append(one)
    still = b"".join(calm)
    lines = adjacent_additions.merge_file(repository, text.old, text.patched, still)
    if lines is not None:
        return across, b"".join(lines), changed
    file = next(one for one in patch.files if one.path == path)
    merged_file = adjacent_additions.settle_file(repository, file, text.old, text.patched, still)
    return (across, merged_file.data, changed) if merged_file else None


def _update_copy(repository: Repository, moved_run: MovedRun, across: LineMap, target: bytes) -> bytes | None:
    """Bring upstream's change of the run into its copy in ``target``.

    None where that does not merge, or the copy is gone.
    """
    copy = b"".join(moved_run.copy.lines)
    place = across.find_place(*_find_range(moved_run))
    if target.count(copy) != 1 or place is None:
        return None
    changed = adjacent_additions.merge_file(
        repository, b"".join(moved_run.gone.lines), copy, b"".join(across.new[slice(*place)])
    )
    return None if changed is None else target.replace(copy, b"".join(changed))


def _make_note(moved_run: MovedRun, across: LineMap, what: str) -> Note:
    start, stop = _find_range(moved_run)
    first, _ = across.find_surroundings(start, stop)
    return Note(
        moved_run.source,
        first + 1,
        f"upstream changed text that moves to {moved_run.target}: {what}",
        upstream=across.format_diff(start, stop),
    )


def _find_range(moved_run: MovedRun) -> tuple[int, int]:
    return moved_run.gone.start - 1, moved_run.gone.start - 1 + len(moved_run.gone.lines)
