"""The time to go that a build tells, against simulated builds of the real table of seconds."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import pytest
from msgspec import Struct

from decouple.build import object_times
from decouple.cli.eta import Eta

TENTH_MINUTE = 600.0
HOUR = 3600.0


class Simulated(Struct, frozen=True):
    """One object: what it is expected to take, and what it does (core-seconds)."""

    expected: float
    true: float


def objects(release: str, kind: str, stage: int, seed: int, *, ordered: bool) -> list[float]:
    """Expected core-seconds of a recorded stage's objects, in the order of the build."""
    kinds = object_times.load_seconds(release, kind, stage).kinds
    expected = [row.seconds for _, row in sorted(kinds.items()) for _ in range(row.objects)]
    if not ordered:
        random.Random(seed).shuffle(expected)
    return expected


def ended(work: Sequence[Simulated], jobs: int) -> Iterator[tuple[float, Simulated]]:
    """When each object is done, by ``jobs`` at once, in order."""
    running: list[tuple[float, int]] = []
    now = 0.0
    for number, one in enumerate(work):
        if len(running) == jobs:
            now, done = heapq.heappop(running)
            yield now, work[done]
        heapq.heappush(running, (now + one.true, number))
    while running:
        now, done = heapq.heappop(running)
        yield now, work[done]


def misses(work: Sequence[Simulated], jobs: int, expected_jobs: int = 0) -> list[tuple[float, float, float]]:
    """(seconds since the start, seconds to go as told, as they were) wherever they are further apart than 20 %, from
    the tenth minute on, and than the longest object takes: it may be the last one, with all other jobs idle."""
    log = list(ended(work, jobs))
    end, effort = log[-1][0], sum(one.expected for one in work)
    longest = max(one.true for one in work)
    eta = Eta(0.0, len(work), effort, effort / (expected_jobs or jobs))
    found = []
    for when, one in log:
        eta.advance(when, 1, one.expected, (one.expected, one.true))
        left, true = eta.estimate_left(), end - when
        assert left is not None
        if when >= TENTH_MINUTE and abs(left - true) > max(0.2 * true, longest):
            found.append((when, left, true))
    return found


def noisy(expected: Sequence[float], factor: float, seed: int) -> list[Simulated]:
    """A machine ``factor`` times as slow, where an object takes up to half more or less than the mean of its kind."""
    chance = random.Random(seed)
    return [Simulated(one, one * factor * chance.uniform(0.5, 1.5)) for one in expected]


MACHINES = pytest.mark.parametrize("factor", [0.6, 1.0, 2.0, 3.0])
JOBS = pytest.mark.parametrize("jobs", [2, 8])


@MACHINES
@JOBS
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("stage", [1, 2])
def test_a_cold_build(stage: int, factor: float, jobs: int, ordered: bool) -> None:
    work = noisy(objects("2.6", "portable", stage, 1, ordered=ordered), factor, 2)
    # on a machine that is slower than the estimate's, a large object may take all of the ten minutes
    assert len(misses(work, jobs)) <= (2 if factor > 1 else 0)


@MACHINES
@JOBS
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_build_whose_first_objects_come_out_of_the_cache(factor: float, jobs: int, share: float) -> None:
    """A resumed run: what ninja has is not among the objects, what ccache has takes a twentieth of a second."""
    work = noisy(objects("2.6", "portable", 1, 3, ordered=False), factor, 4)
    cached = int(len(work) * share)
    resumed = [Simulated(one.expected, 0.05) for one in work[:cached]] + work[cached:]
    assert misses(resumed, jobs) == []


def test_a_machine_whose_memory_lets_half_as_many_jobs_run() -> None:
    work = noisy(objects("2.6", "portable", 1, 3, ordered=False), 1.0, 4)
    late = [when for when, left, true in misses(work, 4, expected_jobs=8) if when > 2 * TENTH_MINUTE]
    assert late == []


def test_where_nobody_measures_an_object_the_pace_is_that_of_all() -> None:
    work = noisy(objects("2.6", "portable", 1, 3, ordered=False), 2.0, 4)
    effort, log = sum(one.expected for one in work), list(ended(work, 2))
    eta = Eta(0.0, len(work), effort, effort / 2)
    for when, one in log[: len(log) // 2]:
        eta.advance(when, 1, one.expected)
    assert eta.estimate_left() == pytest.approx(log[-1][0] - when, rel=0.2)


def test_it_begins_with_the_estimate_and_does_not_jump() -> None:
    """It began at 0 s, and said 1h47m, 3h12m and 1h18m within minutes."""
    work = noisy(objects("2.6", "portable", 1, 5, ordered=True), 1.4, 6)
    effort = sum(one.expected for one in work)
    eta = Eta(0.0, len(work), effort, effort / 2)
    assert eta.estimate_left() == pytest.approx(effort / 2)
    told = []
    for when, one in ended(work, 2):
        eta.advance(when, 1, one.expected)
        told.append((when, eta.estimate_left() or 0.0))
    hour = [left for when, left in told if when < HOUR]
    steps = [abs(after - before) for before, after in itertools.pairwise(hour)]
    assert max(steps) < 0.25 * effort / 2


@pytest.mark.parametrize("first", [lambda eta: None, lambda eta: eta.advance(0.4, 1, 0.1)])
def test_the_first_moments_tell_the_estimate(first: Callable[[Eta], None]) -> None:
    eta = Eta(0.0, 3500, 20_000.0, 10_000.0)
    first(eta)
    assert eta.estimate_left() == pytest.approx(10_000.0, rel=0.01)


def test_between_two_steps_time_passes() -> None:
    eta = Eta(0.0, 10, 1000.0, 1000.0)
    assert eta.estimate_left(now=300.0) == pytest.approx(700.0)
    assert eta.estimate_left(now=5000.0) == 0.0


def test_a_second_try_keeps_the_pace() -> None:
    """A compiler that ran out of memory is started again, and ninja counts anew."""
    eta = Eta(0.0, 100, 1000.0, 1000.0)
    for step in range(1, 51):
        eta.advance(20.0 * step, 1, 10.0)  # half as fast as expected
    eta.follow(50, 500.0)
    assert eta.estimate_left() == pytest.approx(1000.0, rel=0.1)
