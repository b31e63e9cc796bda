"""Find text that a patch moves.

That is a run of lines that goes from one file and comes in another. A patch says "moved", a reader believes it, and
nobody compares 160 lines by eye. Here both sides are compared, white space left out, so that a line that went and did
not come is seen: upstream's change that a hasty merge lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from decouple.patch.parse import FilePatch, Hunk, Patch

TELLING = re.compile(rb"\w\w")
"""A line with a word in it; blank lines and brackets are everywhere, and prove no place."""
_DIRECTIVE = re.compile(rb"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
LEAST = 6
"""Lines with words that must have come for a run to count as moved; fewer come by chance, as imports do."""


class LineRun(Struct, frozen=True):
    """Lines that stand together: ``start`` is the 1-based line of the first."""

    start: int
    lines: tuple[bytes, ...]


class MovedRun(Struct, frozen=True):
    """A run that went from ``source`` and came in ``target``."""

    source: str
    target: str
    gone: LineRun
    """The whole run, with the lines that did not come."""
    copy: LineRun
    """In the target: from the first line that came to the last."""
    lost: tuple[tuple[int, bytes], ...]
    """Line of the source and text of what went and did not come."""


def find_moved_runs(patch: Patch) -> list[MovedRun]:
    """Find every run of lines most of which come in another file of the same patch."""
    runs = []
    came = {file.path: _list_added_lines(file) for file in patch.files}
    for file in patch.files:
        for gone in (run for hunk in file.hunks for run in _list_removed_runs(hunk)):
            if sum(1 for line in gone.lines if TELLING.search(line)) < LEAST:
                continue
            candidates = [_match_run(file.path, gone, path, lines) for path, lines in came.items() if path != file.path]
            best = max(
                (candidate for candidate in candidates if candidate),
                key=lambda candidate: -len(candidate.lost),
                default=None,
            )
            if best:
                runs.append(best)
    return runs


def _match_run(source: str, gone: LineRun, target: str, came: Sequence[tuple[int, bytes]]) -> MovedRun | None:
    """Return the run in ``target``, if most of its telling lines came there, in order.

    Most means: more than half.
    """
    old, new = [_normalize_blanks(line) for line in gone.lines], [_normalize_blanks(line) for _, line in came]
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    hit = {block.a + at: block.b + at for block in blocks for at in range(block.size)}
    telling = [at for at, line in enumerate(gone.lines) if TELLING.search(line)]
    matched = [at for at in telling if at in hit]
    if len(matched) < LEAST or 2 * len(matched) < len(telling):
        return None
    first, last = min(hit[at] for at in matched), max(hit[at] for at in matched)
    copy = LineRun(came[first][0], tuple(line for _, line in came[first : last + 1]))
    settled = _find_settled_lines(gone.lines, set(hit))
    lost = [at for at in telling if at not in hit and at not in settled]
    return MovedRun(source, target, gone, copy, tuple((gone.start + at, gone.lines[at]) for at in lost))


def _find_settled_lines(lines: Sequence[bytes], came: set[int]) -> set[int]:
    """Find the lines that the move decided.

    These are directives, and branches of a conditional of which most of another branch came.
    """
    out: set[int] = set()
    stack: list[list[list[int]]] = []
    for at, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if not match:
            for branches in stack:
                branches[-1].append(at)
            continue
        out.add(at)
        word = match.group(1)
        if word.startswith(b"if"):
            stack.append([[]])
        elif not stack:
            continue
        elif word == b"endif":
            branches = stack.pop()
            whole = [[at for at in branch if TELLING.search(lines[at])] for branch in branches]
            if any(branch and 2 * len(came & set(branch)) >= len(branch) for branch in whole):
                out.update(at for branch in whole if not came & set(branch) for at in branch)
        else:
            stack[-1].append([])
    return out


def _list_removed_runs(hunk: Hunk) -> Iterator[LineRun]:
    """Yield the runs of removed lines of a hunk.

    Lines that it adds in between do not part them.
    """
    number, start, lines = hunk.old_start, 0, list[bytes]()
    for line in hunk.lines:
        if line.kind == "-":
            start = start or number
            lines.append(line.text)
        elif line.kind == " " and lines:
            yield LineRun(start, tuple(lines))
            start, lines = 0, []
        number += line.kind != "+"
    if lines:
        yield LineRun(start, tuple(lines))


def _list_added_lines(file: FilePatch) -> list[tuple[int, bytes]]:
    """List the added lines of a file, each with its line in the new file."""
    added = []
    for hunk in file.hunks:
        number = hunk.new_start
        for line in hunk.lines:
            if line.kind == "+":
                added.append((number, line.text))
            number += line.kind != "-"
    return added


def _normalize_blanks(line: bytes) -> bytes:
    return b" ".join(line.split())
