"""Text that a patch moves: a run of lines that goes from one file and comes in another.

A patch says "moved", a reader believes it, and nobody compares 160 lines by eye. Here both sides are compared, white
space left out, so that a line that went and did not come is seen: upstream's change that a hasty merge lost.
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


class Run(Struct, frozen=True):
    """Lines that stand together: ``start`` is the 1-based line of the first."""

    start: int
    lines: tuple[bytes, ...]


class MovedRun(Struct, frozen=True):
    """A run that went from ``source`` and came in ``target``."""

    source: str
    target: str
    gone: Run
    """The whole run, with the lines that did not come."""
    copy: Run
    """In the target: from the first line that came to the last."""
    lost: tuple[tuple[int, bytes], ...]
    """Line of the source and text of what went and did not come."""


def moved(patch: Patch) -> list[MovedRun]:
    """Every run of lines most of which come in another file of the same patch."""
    found = []
    came = {file.path: _came(file) for file in patch.files}
    for file in patch.files:
        for gone in (run for hunk in file.hunks for run in _runs(hunk)):
            if sum(1 for line in gone.lines if TELLING.search(line)) < LEAST:
                continue
            candidates = [_match(file.path, gone, path, lines) for path, lines in came.items() if path != file.path]
            best = max((one for one in candidates if one), key=lambda one: -len(one.lost), default=None)
            if best:
                found.append(best)
    return found


def _match(source: str, gone: Run, target: str, came: Sequence[tuple[int, bytes]]) -> MovedRun | None:
    """The run in ``target``, if more than half of its telling lines came there, in order."""
    old, new = [_plain(line) for line in gone.lines], [_plain(line) for _, line in came]
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    hit = {block.a + at: block.b + at for block in blocks for at in range(block.size)}
    telling = [at for at, line in enumerate(gone.lines) if TELLING.search(line)]
    there = [at for at in telling if at in hit]
    if len(there) < LEAST or 2 * len(there) < len(telling):
        return None
    first, last = min(hit[at] for at in there), max(hit[at] for at in there)
    copy = Run(came[first][0], tuple(line for _, line in came[first : last + 1]))
    settled = _settled(gone.lines, set(hit))
    lost = [at for at in telling if at not in hit and at not in settled]
    return MovedRun(source, target, gone, copy, tuple((gone.start + at, gone.lines[at]) for at in lost))


def _settled(lines: Sequence[bytes], came: set[int]) -> set[int]:
    """Directives, and branches of a conditional of which most of another branch came: the move decided them."""
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


def _runs(hunk: Hunk) -> Iterator[Run]:
    """The runs of removed lines of a hunk; lines that it adds in between do not part them."""
    number, start, lines = hunk.old_start, 0, list[bytes]()
    for line in hunk.lines:
        if line.kind == "-":
            start = start or number
            lines.append(line.text)
        elif line.kind == " " and lines:
            yield Run(start, tuple(lines))
            start, lines = 0, []
        number += line.kind != "+"
    if lines:
        yield Run(start, tuple(lines))


def _came(file: FilePatch) -> list[tuple[int, bytes]]:
    """The added lines of a file, each with its line in the new file."""
    found = []
    for hunk in file.hunks:
        number = hunk.new_start
        for line in hunk.lines:
            if line.kind == "+":
                found.append((number, line.text))
            number += line.kind != "-"
    return found


def _plain(line: bytes) -> bytes:
    return b" ".join(line.split())
