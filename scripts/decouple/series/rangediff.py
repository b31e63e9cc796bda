"""Two series side by side, patch by patch, by ``Decouple-Id``: what stayed, changed, came and went."""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Sequence

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.patch.parse import Patch

_NUMBERS = re.compile(r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


class PatchChange(enum.Enum):
    """The change of a patch between two series."""

    SAME_FILE = "same file"
    """Both series list the very same patch file."""
    MOVED = "same changes"
    """Another file; only line numbers, blob ids or the header differ."""
    CHANGED = "changed"
    DROPPED = "dropped"
    NEW = "new"


class RangeRow(Struct, frozen=True):
    """A ``Decouple-Id`` in both series.

    ``difference``: the patches' texts compared, as unified diff lines.
    """

    identity: str
    status: PatchChange
    old: Patch | None
    new: Patch | None
    difference: tuple[str, ...] = ()


def compare_series(old: Sequence[Patch], new: Sequence[Patch]) -> list[RangeRow]:
    """Return one row per id, in the order of the new series.

    What was dropped stands at its old place in front of what follows it.

    Raises DecoupleError when a patch has no ``Decouple-Id`` or two share one.
    """
    before, after = _index_by_id(old), _index_by_id(new)
    rows = [_compare_patch(identity, before.get(identity), patch) for identity, patch in after.items()]
    for identity, patch in before.items():
        if identity in after:
            continue
        names = list(before)
        follows = next((name for name in names[names.index(identity) + 1 :] if name in after), None)
        at = next((n for n, row in enumerate(rows) if row.identity == follows), len(rows))
        rows.insert(at, RangeRow(identity, PatchChange.DROPPED, patch, None))
    return rows


def _compare_patch(identity: str, old: Patch | None, new: Patch) -> RangeRow:
    if old is None:
        return RangeRow(identity, PatchChange.NEW, None, new)
    if old.name == new.name:
        return RangeRow(identity, PatchChange.SAME_FILE, old, new)
    left, right = _make_comparable(old), _make_comparable(new)
    if left == right:
        return RangeRow(identity, PatchChange.MOVED, old, new)
    difference = difflib.unified_diff(left, right, old.name, new.name, lineterm="")
    return RangeRow(identity, PatchChange.CHANGED, old, new, tuple(difference))


def _make_comparable(patch: Patch) -> list[str]:
    """Return the diff without what changes by itself: blob ids and line numbers."""
    lines = patch.to_diff().decode("utf-8", "replace").splitlines()
    return [_NUMBERS.sub("@@", line) for line in lines if not line.startswith(("index ", "similarity index "))]


def _index_by_id(series: Sequence[Patch]) -> dict[str, Patch]:
    by_id: dict[str, Patch] = {}
    for patch in series:
        identity = patch.header.decouple_id
        if not identity:
            raise DecoupleError(
                f"{patch.name}: no Decouple-Id to compare by", next_step="decouple lint names all of them"
            )
        if identity in by_id:
            raise DecoupleError(
                f"{patch.name}: has the Decouple-Id of {by_id[identity].name}", next_step="decouple lint"
            )
        by_id[identity] = patch
    return by_id
