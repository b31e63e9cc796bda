"""Settle where upstream only added lines right beside those a patch takes out.

There no two sides changed one line. A 3-way merge calls that a conflict, because the two changes touch; GNU patch's
fuzz drops the context on that side and takes the first place that fits. Neither is needed when the text itself shows
which lines they are:

* the lines that the patch takes out, together with all of the patch's context on the other side, stand exactly once in
  the file that the patch was cut on and exactly once in the release's, so they are the same lines; and
* on this side the patch's whole context still stands, and nothing but lines that upstream added is between.

Then upstream's addition is put into both other sides of the merge, at the place where upstream put it, and git merges
the rest. Lines that the patch only adds, where upstream added some as well, have no order that the text could prove:
those stay a conflict. So does anything that stands twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from decouple.base.files import create_file
from decouple.base.git import Repository
from decouple.patch.lines import find_lines, split_lines
from decouple.patch.moved_runs import TELLING
from decouple.patch.parse import FilePatch, Hunk


class ChangedRun(Struct, frozen=True):
    """One run of changed lines of a hunk.

    ``at``: 0-based line of the old file; context is what the hunk quotes.
    """

    at: int
    before: tuple[bytes, ...]
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]
    after: tuple[bytes, ...]


class Addition(Struct, frozen=True):
    """Lines that upstream put right beside what a patch takes out.

    It has where (0-based) in the three texts they go.
    """

    lines: tuple[bytes, ...]
    old: int
    patched: int
    new: int


class MergedFile(Struct, frozen=True):
    """The merged file, and what upstream had added beside the patch's lines."""

    data: bytes
    additions: tuple[Addition, ...]


def settle_file(repository: Repository, file: FilePatch, old: bytes, patched: bytes, new: bytes) -> MergedFile | None:
    """Merge what turned ``old`` into ``patched`` into ``new``.

    Returns None unless the texts prove where each line goes. ``file`` is the patch's part for this file, and must turn
    ``old`` into ``patched`` line for line.
    """
    olds, patcheds, news = (split_lines(data) for data in (old, patched, new))
    additions = []
    shift = 0
    for edit in (edit for hunk in file.hunks for edit in find_changed_runs(hunk)):
        if olds[edit.at : edit.at + len(edit.removed)] != list(edit.removed):
            return None
        candidate = _find_addition(edit, shift, olds, news)
        if candidate:
            additions.append(candidate)
        shift += len(edit.added) - len(edit.removed)
    if not additions:
        return None
    lines = merge_file(
        repository,
        _insert_lines(olds, [(addition.old, addition.lines) for addition in additions]),
        _insert_lines(patcheds, [(addition.patched, addition.lines) for addition in additions]),
        new,
    )
    if lines is None or _count_changed_lines(olds, patcheds) != _count_changed_lines(news, lines):
        return None
    return MergedFile(b"".join(lines), tuple(additions))


def find_changed_runs(hunk: Hunk) -> Iterator[ChangedRun]:
    """Yield the runs of changed lines of ``hunk``, with the context that touches each."""
    bounds = [0]
    kinds = [line.kind != " " for line in hunk.lines]
    bounds += [at for at, (left, right) in enumerate(pairwise(kinds), start=1) if left != right]
    bounds.append(len(kinds))
    runs = list(pairwise(bounds))
    line = hunk.old_start - 1 if hunk.old_count else hunk.old_start
    for number, (start, end) in enumerate(runs):
        part = hunk.lines[start:end]
        removed = tuple(change_line.text for change_line in part if change_line.kind == "-")
        if kinds[start]:
            before = hunk.lines[slice(*runs[number - 1])] if number else ()
            after = hunk.lines[slice(*runs[number + 1])] if number + 1 < len(runs) else ()
            added = tuple(change_line.text for change_line in part if change_line.kind == "+")
            yield ChangedRun(line, tuple(o.text for o in before), removed, added, tuple(o.text for o in after))
            line += len(removed)
        else:
            line += len(part)


def _find_addition(edit: ChangedRun, shift: int, olds: Sequence[bytes], news: Sequence[bytes]) -> Addition | None:
    """Return what upstream added right beside the lines that ``edit`` takes out.

    None if nothing is proven.
    """
    if not edit.removed or not edit.before or not edit.after:
        return None
    if find_lines(news, (*edit.before, *edit.removed, *edit.after)):
        return None  # nothing came between: for git to judge
    at = _find_only_place(olds, news, (*edit.removed, *edit.after))
    if at is not None:
        ends = [place + len(edit.before) for place in find_lines(news, edit.before)]
        start = max((end for end in ends if end <= at), default=None)
        if start is not None and _is_new_text(news[start:at], olds, news):
            return Addition(tuple(news[start:at]), edit.at, edit.at + shift, start)
    at = _find_only_place(olds, news, (*edit.before, *edit.removed))
    if at is not None:
        start = at + len(edit.before) + len(edit.removed)
        stop = min((place for place in find_lines(news, edit.after) if place >= start), default=None)
        if stop is not None and _is_new_text(news[start:stop], olds, news):
            end = edit.at + len(edit.removed)
            return Addition(tuple(news[start:stop]), end, edit.at + shift + len(edit.added), start)
    return None


def _is_new_text(between: Sequence[bytes], olds: Sequence[bytes], news: Sequence[bytes]) -> bool:
    """Return whether upstream wrote ``between``: it has more of each line than before."""
    more = Counter(news) - Counter(olds)
    return all(more[line] >= count for line, count in Counter(between).items() if TELLING.search(line))


def _find_only_place(olds: Sequence[bytes], news: Sequence[bytes], block: Sequence[bytes]) -> int | None:
    """Return where ``block`` stands in ``news``, if it stands once in both texts.

    The other text is ``olds``; the block must have words in it.
    """
    if sum(1 for line in block if TELLING.search(line)) < 2:
        return None
    here = find_lines(news, block)
    return here[0] if len(here) == 1 and len(find_lines(olds, block)) == 1 else None


def _insert_lines(lines: Sequence[bytes], put: Sequence[tuple[int, tuple[bytes, ...]]]) -> bytes:
    """Insert each of ``put`` in front of its line."""
    out = list(lines)
    for at, more in sorted(put, reverse=True):
        out[at:at] = more
    return b"".join(out)


def merge_file(repository: Repository, old: bytes, patched: bytes, new: bytes) -> list[bytes] | None:
    """Run ``git merge-file``; returns the merged lines, None at a conflict.

    The three texts are left in the repository's own folder for the next merge to write over.
    """
    scratch = repository.state_folder
    scratch.mkdir(parents=True, exist_ok=True)
    paths = [scratch / f"merge-{name}" for name in ("new", "old", "patched")]
    for path, data in zip(paths, (new, old, patched), strict=True):
        with create_file(path) as file:
            file.write(data)
    answer = repository.try_run("merge-file", "-p", "-q", *map(str, paths))
    return split_lines(answer.out) if answer.status == 0 else None


def _count_changed_lines(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[Counter[bytes], Counter[bytes]]:
    """Count which lines went and which came.

    A merge must neither add to these nor leave any out.
    """
    old, new = Counter(before), Counter(after)
    return old - new, new - old
