"""Estimate how long work under way takes, from its estimate to the seen pace."""

from __future__ import annotations

import math

TRUST, TRUST_HALVES = 120.0, 250.0
"""Seconds of work that the estimate counts for beside what was seen, and after how many seconds of that half as much:
the first minutes tell little, the tenth tells enough."""
HALF_LIFE = 1500.0
"""Seconds after which what was seen counts half: machines and objects change, and a single object may take minutes.
Less of it follows other work on the machine sooner, and is further off where objects differ as recorded ones do."""
BLOCK = 20.0
"""Seconds whose steps are judged together: objects of several jobs end at almost the same time."""
CACHED = 4.0
"""How many times faster than expected a block, or an object, must be to tell of a compiler's cache, and not of this
machine."""
LEAST = 1.0
"""Effort below which an item tells nothing of the pace: it takes as long out of the cache."""
HELD, HELD_SECONDS = 5.0, 60.0
"""How many times longer than the others an item, or a block, must take, and how many seconds at least, to tell that the
processes did not run: stopped, or starved by other work. The rest of that time says nothing of the time to come."""
PRIOR = 15.0
"""Effort that counts as done just as expected, beside that of which is known what it did take."""
SHORT_HALF_LIFE, CHANGED, SHORT_ITEMS = 150.0, 2.0, 12.0
"""Half-life of a second, short memory of what items took; by which factor it must differ from the long one, and how
many items it must hold, to be believed alone: other work has come, or gone. Below that it counts for less, and where
items merely differ, as recorded ones do, for next to nothing."""

LASTS = 1800.0
"""Seconds for which a machine that is slower than on the whole is expected to stay so: other work comes and goes. The
rest is told by all that was seen. Where it is faster, it is expected to stay that."""


class _Memory:
    """What items took, of what was expected of them; it fades with ``half_life``."""

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self.effort, self.spent, self.seconds, self.items = 0.0, 0.0, 0.0, 0.0

    def fade(self, seconds: float) -> None:
        """Let that time go by."""
        share = 0.5 ** (seconds / self._half_life)
        self.effort, self.spent, self.seconds = self.effort * share, self.spent * share, self.seconds * share
        self.items *= share

    def add(self, seconds: float, effort: float, spent: float) -> None:
        """Count an item that took ``spent``; ``seconds`` went by for it."""
        self.effort, self.spent, self.seconds = self.effort + effort, self.spent + spent, self.seconds + seconds
        self.items += 1

    @property
    def slowness(self) -> float:
        """How many times longer than expected an item took."""
        return (self.spent + PRIOR) / (self.effort + PRIOR)


class Eta:
    """The time that ``total`` items take, begun at ``now`` (seconds).

    They are expected to take ``effort`` in any measure (0: items are alike). ``seconds``: what all of them take by the
    estimate; None: nothing is known before the first step.
    """

    def __init__(
        self, now: float, total: float | None = None, effort: float = 0.0, seconds: float | None = None
    ) -> None:
        self.done = 0.0
        """Items."""
        self._total, self._effort = total or 0.0, effort
        self._spent = 0.0
        #: effort (else items) in a second, as expected; 0: not known
        self._rate = (effort or self._total) / seconds if seconds else 0.0
        self._seen_seconds, self._seen_effort = 0.0, 0.0
        self._squares = 0.0  # of each step's effort: large objects are the ones under way
        self._seen = 0.0  # seconds, none of which fades
        self._first = 1.0  # how much the first of it counts yet
        self._block_began, self._block_effort, self._last = now, 0.0, now
        #: of the items of which is known what they took
        self._long, self._short, self._compared = _Memory(HALF_LIFE), _Memory(SHORT_HALF_LIFE), now
        self._whole = _Memory(math.inf)

    def advance(
        self, now: float, amount: float, effort: float = 0.0, measured: tuple[float, float] | None = None
    ) -> None:
        """``amount`` more items, which were expected to take ``effort``, are done.

        ``measured``: what was expected of items that are done, and what they did take, in the same measure.
        """
        step = effort if self._effort else amount
        if measured and measured[0] and self._rate:
            self._compare(now - self._compared, *measured)
            self._compared = now
        self.done += amount
        self._spent += step
        self._squares += step * step / amount if amount else 0.0
        self._block_effort += step
        self._last = now
        if now - self._block_began >= (BLOCK if self._rate else 0.0):
            self._close_block(now)

    def follow(self, total: float, effort: float) -> None:
        """Begin anew from 0 with a rest of ``total`` items and ``effort``; the pace stays."""
        self._total, self._effort, self.done, self._spent = total, effort, 0.0, 0.0

    def estimate_left(self, now: float | None = None) -> float | None:
        """Return seconds to go, as of ``now`` (None: of the last step).

        None where nothing says.
        """
        if self._total and self.done >= self._total:
            return 0.0
        whole = self._effort or self._total
        rate = self._compute_pace()
        if not whole or rate is None:
            return None
        left = max(whole - self._spent, 0.0)
        left -= min(self._estimate_under_way(), left / 2)
        soon = min(left, rate * LASTS)
        later = (left - soon) * min(self._whole.slowness / self._compute_slowness(), 1.0)
        return max((soon + later) / rate - (0.0 if now is None else now - self._last), 0.0)

    def _compare(self, seconds: float, effort: float, spent: float) -> None:
        """Count an item that took ``spent`` where ``effort`` was expected.

        It came ``seconds`` after the one before. What several jobs do at once is seen without a guess at what is under
        way: large objects, which end late, made the pace too slow. One out of the compiler's cache tells nothing.
        """
        slowness = self._compute_slowness()
        at_most = max(HELD * effort * slowness, HELD_SECONDS)
        seconds = min(seconds, at_most)
        memories = self._long, self._short, self._whole
        for memory in memories:
            memory.fade(seconds)
        if effort < LEAST or CACHED * spent < effort * min(1.0, slowness):
            return
        spent = min(spent, at_most)
        for memory in memories:
            memory.add(seconds, effort, spent)

    def _compute_slowness(self) -> float:
        """Return how many times longer than expected an item takes now."""
        usual = self._long.slowness
        change = self._short.slowness / usual
        differs = min(abs(math.log(change)) / math.log(CHANGED), 1.0)
        share = (differs * min(self._short.items / SHORT_ITEMS, 1.0)) ** 4
        return usual * float(change**share)

    def _compute_known_pace(self) -> float:
        """Compute effort per second by what items took, many at once as far as seen."""
        slowness = self._compute_slowness()
        under_way = self._rate * self._squares / self._spent * slowness if self._spent else 0.0
        at_most = (self._long.spent + under_way) / self._long.seconds if self._long.seconds else self._rate
        return min(self._rate, at_most) / slowness

    def _compute_pace(self) -> float | None:
        """Effort in a second; None where nothing says."""
        if self._long.effort:
            return self._compute_known_pace()
        if self._rate:
            effort = self._seen_effort + self._first * self._estimate_under_way()
            trust: float = TRUST * 0.5 ** (self._seen / TRUST_HALVES)
            return (effort + self._rate * trust) / (self._seen_seconds + trust)
        return self._seen_effort / self._seen_seconds if self._seen_effort and self._seen_seconds else None

    def _estimate_under_way(self) -> float:
        """Estimate what is done and not seen when a job ends.

        Each other one has an object under way, half of it done on average. Where effort is core-seconds, as many are
        expected in a second as there are jobs.
        """
        return max(self._rate - 1.0, 0.0) * self._squares / self._spent / 2 if self._spent else 0.0

    def _close_block(self, now: float) -> None:
        seconds, effort = now - self._block_began, self._block_effort
        self._block_began, self._block_effort = now, 0.0
        pace = self._compute_pace() or 0.0
        if self._rate and effort > CACHED * seconds * max(self._rate, pace):
            return
        if self._rate and pace:
            seconds = min(seconds, max(HELD * (effort + self._estimate_under_way()) / pace, HELD_SECONDS))
        fades = 0.5 ** (seconds / HALF_LIFE)
        self._first *= fades
        self._seen += seconds
        self._seen_seconds = self._seen_seconds * fades + seconds
        self._seen_effort = self._seen_effort * fades + effort
