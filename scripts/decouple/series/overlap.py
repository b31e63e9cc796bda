"""Which patches of a series build on each other's lines.

A later patch *overlaps* an earlier one where one of its hunks, context included, contains lines that the earlier one
wrote, or spans a place where it took lines away: without the earlier patch that hunk would find other lines and not
apply, so the two cannot be dropped, refreshed or reordered on their own. That is a fault unless the later patch says so
in ``Depends``. A hunk that merely stands near another is none; neither is a hunk in a file that an earlier patch
renamed, since a rename writes no line.

The line ranges come from the patches alone: every range that an earlier patch changed is carried through the patches
behind it, along renames, by the line numbers of their hunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from decouple.patch.parse import FilePatch, Hunk, Patch

_WHOLE_FILE = 2**31


class Overlap(Struct, frozen=True):
    """A hunk of ``later`` that contains lines of ``earlier``."""

    later: Patch
    earlier: Patch
    path: str
    hunk: Hunk


class _Range(Struct, frozen=True):
    """Lines ``begin`` up to, not including, ``end`` that ``owner`` wrote.

    It is empty where the owner only took lines away.
    """

    begin: int
    end: int
    owner: int
    """The place of the patch in the series."""


def find_overlaps(series: Sequence[Patch]) -> Iterator[Overlap]:
    """Yield every overlap of a series, in order of the later patch.

    Each pair of hunk and earlier patch comes once.
    """
    owned: dict[str, list[_Range]] = {}
    for rank, patch in enumerate(series):
        after: dict[str, list[_Range] | None] = {}
        for section in patch.files:
            known = owned.get(section.old_path, []) if section.old_path else []
            for hunk in section.hunks:
                for owner in sorted({known_range.owner for known_range in known if _is_touching(hunk, known_range)}):
                    yield Overlap(patch, series[owner], section.path, hunk)
            if section.old_path and (section.rename or section.new_path is None):
                after.setdefault(section.old_path, None)
            if section.new_path:
                after[section.new_path] = [*_carry_ranges(section, known), *_list_written_ranges(rank, section)]
        for path, ranges in after.items():
            if ranges is None:
                owned.pop(path, None)
            else:
                owned[path] = ranges


def _is_touching(hunk: Hunk, known: _Range) -> bool:
    begin, end = _find_old_range(hunk)
    if known.begin == known.end:
        # lines were taken away in front of line `begin`: does the hunk have both neighbours, or the edge of the file?
        behind_start = begin < known.begin or (hunk.old_start <= 1 and begin == known.begin)
        before_end = known.begin < end or (hunk.trailing == 0 and known.begin == end)
        return behind_start and before_end
    return known.begin < end and begin < known.end


def _find_old_range(hunk: Hunk) -> tuple[int, int]:
    begin = hunk.old_start if hunk.old_count else hunk.old_start + 1
    return begin, begin + hunk.old_count


def _list_changes(hunk: Hunk) -> Iterator[tuple[int, int, int, int]]:
    """Yield the changes of a hunk.

    Lines old_begin to old_end became new_begin to new_end (ends not included).
    """
    old = _find_old_range(hunk)[0]
    new = hunk.new_start if hunk.new_count else hunk.new_start + 1
    old_begin, new_begin = old, new
    for line in hunk.lines:
        if line.kind == " ":
            if (old_begin, new_begin) != (old, new):
                yield old_begin, old, new_begin, new
            old, new = old + 1, new + 1
            old_begin, new_begin = old, new
        elif line.kind == "-":
            old += 1
        else:
            new += 1
    if (old_begin, new_begin) != (old, new):
        yield old_begin, old, new_begin, new


def _list_written_ranges(rank: int, section: FilePatch) -> Iterator[_Range]:
    if section.creates:
        yield _Range(1, _WHOLE_FILE, rank)
        return
    for hunk in section.hunks:
        for _, _, begin, end in _list_changes(hunk):
            yield _Range(begin, end, rank)


def _carry_ranges(section: FilePatch, known: list[_Range]) -> Iterator[_Range]:
    """Yield where ranges of earlier patches are once this section is applied.

    What it replaces is no longer theirs.
    """
    runs = [run for hunk in section.hunks for run in _list_changes(hunk)]
    for old in known:
        begin, end = _move_line(runs, old.begin, is_end=False), _move_line(runs, old.end, is_end=True)
        if old.begin == old.end:
            if not any(old_begin < old.begin < old_end for old_begin, old_end, _, _ in runs):
                yield _Range(end, end, old.owner)
        elif begin < end:
            yield _Range(begin, end, old.owner)


def _move_line(runs: list[tuple[int, int, int, int]], line: int, *, is_end: bool) -> int:
    """Return the line number behind ``runs`` of the first line of a range.

    Or of the line behind its last one (``is_end``).
    """
    shift = 0
    for old_begin, old_end, new_begin, new_end in runs:
        if line < old_begin or (is_end and line == old_begin):
            break
        if line < old_end:
            return new_begin if is_end else new_end
        shift = new_end - old_end
    return line + shift
