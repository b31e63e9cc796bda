"""Upstream changed text that a patch moves: the change goes to the copy, and the old place is emptied as before.

A 3-way merge knows the move as a deletion and calls any change of those lines a conflict; who settles it with "ours"
loses what upstream mended. Here the moved lines are found in the release (``Across.place``), what upstream did to them
is merged into the copy, and the rest of the file is merged as if upstream had left them alone. Both must merge without
a conflict, or a person is shown what upstream did.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from decouple.base.git import Repository
from decouple.patch.lines import lines_of
from decouple.patch.moved import MovedRun, moved
from decouple.patch.parse import Patch
from decouple.rebase import beside
from decouple.rebase.lines import Across
from decouple.rebase.verdicts import Note


class Texts(Struct, frozen=True):
    """A file before the patch, after it, and in the release that it is carried to."""

    old: bytes
    patched: bytes
    new: bytes


class Ported(Struct, frozen=True):
    """The text of each file that changes, and what was brought where."""

    texts: Mapping[str, bytes]
    notes: tuple[Note, ...]


def port(
    repository: Repository, patch: Patch, conflicts: Mapping[str, Texts], merged: Mapping[str, bytes]
) -> Ported | None:
    """Settle the files in conflict by bringing upstream's changes of moved text to where it went.

    ``merged`` has the text of each file that the patch moves text to, as the merge left it. None where a conflict is no
    such thing, or where a merge is not clean.
    """
    runs = [one for one in moved(patch) if one.source in conflicts]
    texts = dict(merged)
    notes: list[Note] = []
    for path, text in conflicts.items():
        mine = [one for one in runs if one.source == path and one.target in texts]
        settled = _settled(repository, patch, path, text, mine)
        if settled is None:
            return None
        across, data, changed = settled
        if not changed:
            return None
        for one in changed:
            copy = _copied(repository, one, across, texts[one.target])
            if copy is None:
                return None
            texts[one.target] = copy
            notes.append(_note(one, across, "brought there"))
        texts[path] = data
    return Ported(texts, tuple(notes))


def unported(patch: Patch, conflicts: Mapping[str, Texts]) -> tuple[Note, ...]:
    """What upstream did to text that the patch moves, where it could not be brought to the copy: for a person."""
    notes = []
    for one in moved(patch):
        if one.source in conflicts:
            text = conflicts[one.source]
            across = Across(lines_of(text.old), lines_of(text.new))
            if across.shown(*_range(one)):
                notes.append(_note(one, across, "bring this there by hand"))
    return tuple(notes)


def _settled(
    repository: Repository, patch: Patch, path: str, text: Texts, runs: list[MovedRun]
) -> tuple[Across, bytes, list[MovedRun]] | None:
    """The file merged as if upstream had not touched the moved runs, and the runs that it did touch."""
    across = Across(lines_of(text.old), lines_of(text.new))
    changed = []
    calm = list(across.new)
    for one in sorted(runs, key=lambda run: -run.gone.start):
        start, stop = _range(one)
        place = across.place(start, stop)
        if place is None:
            return None
        if across.new[slice(*place)] != across.old[start:stop]:
            calm[slice(*place)] = across.old[start:stop]
            changed.append(one)
    still = b"".join(calm)
    lines = beside.merge_file(repository, text.old, text.patched, still)
    if lines is not None:
        return across, b"".join(lines), changed
    file = next(one for one in patch.files if one.path == path)
    found = beside.settle(repository, file, text.old, text.patched, still)
    return (across, found.data, changed) if found else None


def _copied(repository: Repository, one: MovedRun, across: Across, target: bytes) -> bytes | None:
    """The target with upstream's change of the run in its copy; None where that does not merge, or the copy is gone."""
    copy = b"".join(one.copy.lines)
    place = across.place(*_range(one))
    if target.count(copy) != 1 or place is None:
        return None
    changed = beside.merge_file(repository, b"".join(one.gone.lines), copy, b"".join(across.new[slice(*place)]))
    return None if changed is None else target.replace(copy, b"".join(changed))


def _note(one: MovedRun, across: Across, what: str) -> Note:
    start, stop = _range(one)
    first, _ = across.around(start, stop)
    return Note(
        one.source,
        first + 1,
        f"upstream changed text that moves to {one.target}: {what}",
        upstream=across.shown(start, stop),
    )


def _range(one: MovedRun) -> tuple[int, int]:
    return one.gone.start - 1, one.gone.start - 1 + len(one.gone.lines)
