"""What two torches did with the same tests: outcomes, and what each would have launched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.suites.store import OUTCOMES, SuiteResult

_FILE = Path(__file__).with_name("known.toml")
_PLAIN = ("plain", "plain")
_COUNTS = ("launches", "copies", "sets", "allocations", "calls", "graphs", "events")


class Difference(Struct, frozen=True):
    """A test that is not the same on both: ``what`` is "outcome" or "ledger", ``reason`` stands in ``known.toml``."""

    test: str
    suite: str
    what: str
    ours: str
    theirs: str
    reason: str = ""


class SuiteComparison(Struct, frozen=True):
    """Tests that both ran, how many ended the same, of how many both have a ledger, and how many of those are the same.

    ``exact`` counts ledgers that are the same to the last byte with pointers as (allocation, offset), ``loose`` those
    that are with all pointers alike; between a real GPU and the simulated device both count launches without their
    arguments, copies, fills, events and graphs. ``only_ours`` and ``only_theirs`` count tests that the other side did
    not run.
    """

    tests: int
    outcomes: int
    ledgers: int
    exact: int
    loose: int
    only_ours: int
    only_theirs: int
    found: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        """Whether tests were compared and each difference is known."""
        return self.tests > 0 and all(one.reason for one in self.found)

    def to_dict(self) -> dict[str, Any]:
        """For the status file."""
        numbers = ("tests", "outcomes", "ledgers", "exact", "loose", "only_ours", "only_theirs")
        unknown = [f"{one.test}: {one.what}: {one.ours}, theirs {one.theirs}" for one in self.found if not one.reason]
        return {name: getattr(self, name) for name in numbers} | {"unexplained": unknown}


def compare(ours: Mapping[str, SuiteResult], theirs: Mapping[str, SuiteResult], sides: str = "") -> SuiteComparison:
    """Test by test; ``sides`` ("built/official") chooses the known differences.

    Raises DecoupleError when the ledgers of a test were taken with different lists of bytes that nobody sets.
    """
    both = sorted(ours.keys() & theirs.keys())
    found: list[Difference] = []
    ledgers = exact = loose = same = 0
    for test in both:
        one, other = ours[test], theirs[test]
        if one.outcome == other.outcome:
            same += 1
        else:
            found.append(Difference(test, one.suite, "outcome", _say(one), _say(other)))
        if one.ledger is None or other.ledger is None:
            continue
        if one.ledger.get("unset") != other.ledger.get("unset") and _digests(one.ledger, other.ledger) != _PLAIN:
            raise DecoupleError(
                f"{test}: its two ledgers leave out other bytes (suites/unset has changed since one of them)",
                next_step="decouple test-cuda … --again on the older one",
            )
        ledgers += 1
        to_the_byte, roughly = _digests(one.ledger, other.ledger)
        exact += one.ledger[to_the_byte] == other.ledger[to_the_byte]
        loose += one.ledger[roughly] == other.ledger[roughly]
        if one.outcome == other.outcome and one.ledger[roughly] != other.ledger[roughly]:
            found.append(Difference(test, one.suite, "ledger", *_counts(one.ledger, other.ledger)))
    return SuiteComparison(
        tests=len(both),
        outcomes=same,
        ledgers=ledgers,
        exact=exact,
        loose=loose,
        only_ours=len(ours.keys() - theirs.keys()),
        only_theirs=len(theirs.keys() - ours.keys()),
        found=tuple(replace(one, reason=reason(one.test, one.what, sides, one.ours)) for one in found),
    )


def _digests(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, str]:
    """Which digests are compared: of a real GPU and the simulated one what both are asked for in the same words."""
    same = ours.get("device") == theirs.get("device")
    return ("exact", "loose") if same else _PLAIN


def _say(one: SuiteResult) -> str:
    return one.outcome + (f" ({one.why.splitlines()[0][:200]})" if one.why else "")


def _counts(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, str]:
    """The counts that differ; where all are the same it is the order or the arguments."""
    names = [name for name in _COUNTS if ours.get(name) != theirs.get(name)]
    if not names:
        return "the same numbers, other arguments or order", "run both with --simcuda-entries to see them"
    said = [", ".join(f"{side.get(name)} {name}" for name in names) for side in (ours, theirs)]
    return said[0], said[1]


class Known(Struct, frozen=True):
    """Tests (a pattern on their ids) of which it is known, and why, that they differ or fail.

    ``what`` is "outcome", "ledger" or "failure"; ``sides`` two builds ("built/official"), or of a failure the devices.
    ``said`` is a pattern on what the first of the sides said of it: why it skipped the test, for example.
    """

    tests: re.Pattern[str]
    what: tuple[Literal["outcome", "ledger", "failure"], ...]
    sides: tuple[str, ...]
    reason: str
    said: re.Pattern[str] | None = None


class _File(Struct, frozen=True):
    known: tuple[Known, ...] = ()


@cache
def known() -> tuple[Known, ...]:
    """The rows of ``known.toml``."""
    return toml.read(_FILE, _File, mend="git checkout it").known


def reason(test: str, what: str, sides: str, said: str = "") -> str:
    """Why ``test`` is known to differ in this way between ``sides``, or why it fails on a device; else empty.

    ``said``: what the first of the sides did, in words.
    """
    for row in known():
        if (
            what in row.what
            and sides in row.sides
            and row.tests.search(test)
            and (row.said is None or row.said.search(said))
        ):
            return row.reason
    return ""


def tally(results: Iterable[SuiteResult]) -> dict[str, dict[str, int]]:
    """Suite -> outcome -> number, flaky ones counted apart too."""
    found: dict[str, Counter[str]] = {}
    for one in results:
        counts = found.setdefault(one.suite, Counter())
        counts[one.outcome] += 1
        counts["flaky"] += one.flaky
    return {suite: {name: counts[name] for name in (*OUTCOMES, "flaky")} for suite, counts in found.items()}


def skips(results: Iterable[SuiteResult]) -> Counter[str]:
    """Why tests were skipped, with how many were for each reason."""
    first = ((one.why.strip().splitlines() or [""])[0] for one in results if one.outcome == "skipped")
    return Counter(why.removeprefix("Skipped: ") or "no reason given" for why in first)
