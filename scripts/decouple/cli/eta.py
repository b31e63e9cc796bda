"""How long work that is under way will take, by how fast it went last."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

WINDOW = 120.0
"""Seconds whose pace counts: what a compiler's cache gave at the start says nothing of what must be compiled."""
STEPS = 5
"""Steps that count at least, where each takes longer."""


class _Mark(Struct, frozen=True):
    when: float
    done: float
    spent: float


class Eta:
    """Of ``total`` items, which are expected to take ``effort`` (0: items are alike), begun at ``now`` in seconds."""

    def __init__(self, now: float, total: float | None = None, effort: float = 0.0) -> None:
        self._total, self._effort = total or 0.0, effort
        self._marks = deque([_Mark(now, 0.0, 0.0)])

    @property
    def done(self) -> float:
        """Items."""
        return self._marks[-1].done

    def advance(self, now: float, amount: float, effort: float = 0.0) -> None:
        """``amount`` more items, which were expected to take ``effort``, are done."""
        last = self._marks[-1]
        self._marks.append(_Mark(now, last.done + amount, last.spent + effort))
        while len(self._marks) > STEPS + 1 and now - self._marks[1].when >= WINDOW:
            self._marks.popleft()

    def left(self) -> float | None:
        """Seconds to go, as of the last step; None where nothing says."""
        first, last = self._marks[0], self._marks[-1]
        took = last.when - first.when
        # a run that links alone has nothing of the effort to spend: then the number says more
        if self._effort and last.spent > first.spent:
            return took / (last.spent - first.spent) * max(self._effort - last.spent, 0.0)
        if self._total and last.done > first.done:
            return took / (last.done - first.done) * max(self._total - last.done, 0.0)
        return None
