"""Map lines of a release to those of the one before.

A range of the old text is found in the new.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from functools import cached_property

from msgspec import Struct

_SHOWN = 3  # lines of context around what upstream did


class LineMap(Struct, frozen=True, dict=True):
    """The lines of a file in two releases."""

    old: Sequence[bytes]
    new: Sequence[bytes]

    @cached_property
    def _opcodes(self) -> Sequence[tuple[str, int, int, int, int]]:
        return SequenceMatcher(None, self.old, self.new, autojunk=False).get_opcodes()

    def find_place(self, start: int, stop: int) -> tuple[int, int] | None:
        """Find where the lines ``start`` to ``stop`` stand in the new text.

        From 0, the last not included. What upstream put right before or behind them is not among them. None where an
        edge lies inside a change.
        """
        first = self._find_edge(start, first=True)
        last = self._find_edge(stop, first=False)
        return (first, last) if first is not None and last is not None and first <= last else None

    def find_surroundings(self, start: int, stop: int) -> tuple[int, int]:
        """Find the place of these lines, widened to the whole changes around its edges."""
        firsts = [j1 if tag != "equal" else j1 + start - i1 for tag, i1, i2, j1, _ in self._opcodes if i1 <= start < i2]
        lasts = [j2 if tag != "equal" else j2 - (i2 - stop) for tag, i1, i2, _, j2 in self._opcodes if i1 < stop <= i2]
        first = max(firsts, default=len(self.new))
        last = max(lasts, default=first)
        return first, max(first, last)

    def format_diff(self, start: int, stop: int) -> tuple[str, ...]:
        """Return what upstream did to these lines, as a diff without its header.

        Empty where they are the same.
        """
        first, last = self.find_surroundings(start, stop)
        old = [line.decode("utf-8", "replace").rstrip("\n") for line in self.old[start:stop]]
        new = [line.decode("utf-8", "replace").rstrip("\n") for line in self.new[first:last]]
        return tuple(unified_diff(old, new, n=_SHOWN, lineterm=""))[2:]

    def _find_edge(self, at: int, *, first: bool) -> int | None:
        if at == len(self.old):
            equal = [j2 for tag, _, i2, _, j2 in self._opcodes if i2 == at and tag == "equal"]
            return equal[-1] if equal and not first else len(self.new)
        if at == 0 and first:
            return self._opcodes[0][4] if self._opcodes and self._opcodes[0][0] == "insert" else 0
        for tag, i1, i2, j1, j2 in self._opcodes:
            if first and i1 <= at < i2:
                return j1 + at - i1 if tag == "equal" else j1 if at == i1 else None
            if not first and i1 < at <= i2:
                return j1 + at - i1 if tag == "equal" else j2 if at == i2 else None
        return None
