"""Compare two torches by their test outcomes and by what each would have launched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.suites.store import OUTCOMES, STAND_INS, SuiteResult

_FILE = Path(__file__).with_name("known.toml")
GPU = "gpu"
_PLAIN = ("plain", "plain")
_COUNTS = ("launches", "copies", "sets", "allocations", "calls", "graphs", "events", "processes")


class Difference(Struct, frozen=True):
    """A test that differs: ``what`` is "outcome" or "ledger".

    ``reason`` stands in ``known.toml``, empty when the difference is not known.
    """

    test: str
    suite: str
    what: str
    ours: str
    theirs: str
    reason: str = ""


class SuiteComparison(Struct, frozen=True):
    """Counts of a comparison of two test runs, and each difference.

    ``tests`` ran on both, ``outcomes`` of them ended the same, ``ledgers`` of them have a ledger on both. ``exact``
    counts ledgers that are the same to the last byte with pointers as (allocation, offset), ``loose`` those that are
    with all pointers alike; where a real GPU is one of the devices both count launches without their arguments, copies,
    fills, events and graphs (``plain``). ``only_ours`` and ``only_theirs`` count tests that the other side did not run;
    of these each that our build was to have is a difference. ``format``: of the ledgers' entries, as `simcuda.ledger`
    has it.
    """

    tests: int
    outcomes: int
    ledgers: int
    exact: int
    loose: int
    only_ours: int
    only_theirs: int
    differences: tuple[Difference, ...]
    plain: bool = False
    format: int = 1

    @property
    def ok(self) -> bool:
        """Whether tests were compared and each difference is known."""
        return self.tests > 0 and all(difference.reason for difference in self.differences)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts for the status file."""
        numbers = ("tests", "outcomes", "ledgers", "exact", "loose", "only_ours", "only_theirs", "plain", "format")
        unexplained = sum(not difference.reason for difference in self.differences)
        return {name: getattr(self, name) for name in numbers} | {"unexplained": unexplained}


def compare_results(
    ours: Mapping[str, SuiteResult],
    theirs: Mapping[str, SuiteResult],
    sides: str = "",
    lacking: Collection[str] = (),
) -> SuiteComparison:
    """Compare two builds test by test.

    ``lacking``: tests of theirs that our build was to have and has not; each is a difference of outcome. So is a
    file of ours that pytest could not collect, or a process that ended badly, where those of the other build did not,
    and a test of ours that did not begin, whatever the other build's did.

    ``sides`` ("built/official") selects the known differences, with those of a real GPU and the simulated device where
    one side is of each. Raises DecoupleError when the ledgers of a test were recorded in two formats, or with different
    lists of bytes that nobody sets.
    """
    both = sorted(ours.keys() & theirs.keys())
    differences = [
        Difference(test, theirs[test].suite, "outcome", "there is no such test", _describe_outcome(theirs[test]))
        for test in sorted(lacking)
    ]
    their_files = {test.partition("::")[0] for test in theirs}
    differences += [
        Difference(test, ours[test].suite, "outcome", _describe_outcome(ours[test]), "no such failure")
        for test in sorted(ours.keys() - theirs.keys())
        if test.endswith(STAND_INS) and test.partition("::")[0] in their_files
    ]
    ledgers = exact = loose = same = 0
    plain = False
    formats: set[int] = set()
    for test in both:
        our_result, their_result = ours[test], theirs[test]
        if our_result.outcome == their_result.outcome and our_result.is_begun:
            same += 1
        else:
            differences.append(
                Difference(
                    test, our_result.suite, "outcome", _describe_outcome(our_result), _describe_outcome(their_result)
                )
            )
        if our_result.ledger is None or their_result.ledger is None:
            continue
        pair = [one.get("format", 1) for one in (our_result.ledger, their_result.ledger)]
        if pair[0] != pair[1]:
            raise DecoupleError(
                f"{test}: its two ledgers have entries of two formats ({min(pair)} and {max(pair)})",
                next_step="decouple test-cuda … --again on the older one",
            )
        formats.add(pair[0])
        if (
            our_result.ledger.get("unset") != their_result.ledger.get("unset")
            and _choose_digests(our_result.ledger, their_result.ledger) != _PLAIN
        ):
            raise DecoupleError(
                f"{test}: its two ledgers leave out other bytes (the table of unset bytes changed since one of them)",
                next_step="decouple test-cuda … --again on the older one",
            )
        ledgers += 1
        exact_digest, loose_digest = _choose_digests(our_result.ledger, their_result.ledger)
        plain |= (exact_digest, loose_digest) == _PLAIN
        exact += exact_digest != loose_digest and our_result.ledger[exact_digest] == their_result.ledger[exact_digest]
        loose += our_result.ledger[loose_digest] == their_result.ledger[loose_digest]
        if (
            our_result.outcome == their_result.outcome
            and our_result.ledger[loose_digest] != their_result.ledger[loose_digest]
        ):
            differences.append(
                Difference(test, our_result.suite, "ledger", *_describe_counts(our_result.ledger, their_result.ledger))
            )
    return SuiteComparison(
        tests=len(both),
        outcomes=same,
        ledgers=ledgers,
        exact=exact,
        loose=loose,
        only_ours=len(ours.keys() - theirs.keys()),
        only_theirs=len(theirs.keys() - ours.keys()),
        plain=plain,
        format=min(formats, default=1),
        differences=tuple(
            replace(difference, reason=_find_reason(difference, ours, theirs, sides)) for difference in differences
        ),
    )


def _find_reason(
    difference: Difference, ours: Mapping[str, SuiteResult], theirs: Mapping[str, SuiteResult], sides: str
) -> str:
    """Return why the two builds differ, else an empty string.

    Or why the two kinds of devices do that they ran on.
    """
    pair = [side[difference.test] for side in (ours, theirs) if difference.test in side]
    devices = [(result.ledger or {}).get("device") for result in pair]
    our_result = ours.get(difference.test)
    ended = our_result is None or our_result.outcome != "died"
    reason = find_reason(difference.test, difference.what, sides, difference.ours, ended=ended)
    if reason or GPU not in devices or len(set(devices)) == 1:
        return reason
    known = ended and difference.what == "outcome"
    cannot = next((result.known for result in pair if result.known), "") if known else ""
    said = difference.theirs if devices[0] == GPU else difference.ours
    return cannot or find_reason(difference.test, difference.what, f"simulated/{GPU}", said, ended=ended)


def _choose_digests(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, str]:
    """Return the digests to compare, ours and theirs.

    Where one is of a real GPU only the fields that it and the simulated device record alike are compared: no table says
    there which bytes of the arguments nobody sets, and two runs of one build differ in them.
    """
    return _PLAIN if GPU in (ours.get("device"), theirs.get("device")) else ("exact", "loose")


def _describe_outcome(result: SuiteResult) -> str:
    return result.outcome + (f" ({result.why.splitlines()[0][:200]})" if result.why else "")


def _describe_counts(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, str]:
    """Return the counts that differ, per side.

    Where all counts are the same, order or arguments differ.
    """
    names = [name for name in _COUNTS if ours.get(name, 0) != theirs.get(name, 0)]
    if not names:
        return "the same numbers, other arguments or order", "run both with --simcuda-entries to see them"
    texts = [", ".join(f"{side.get(name, 0)} {name}" for name in names) for side in (ours, theirs)]
    return texts[0], texts[1]


class KnownDifference(Struct, frozen=True):
    """Tests that are known to differ or to fail, with the reason.

    ``tests`` is a pattern on their ids.

    ``what`` is "outcome", "ledger" or "failure"; ``sides`` two builds ("built/official", "*/official"), or of a failure
    the devices.
    ``said`` is a pattern on what the first side reported: why it skipped the test, for example. Without it no
    test is meant that ended its process there: whatever was to fail, a crash has another reason.
    """

    tests: re.Pattern[str]
    what: tuple[Literal["outcome", "ledger", "failure"], ...]
    sides: tuple[str, ...]
    reason: str
    said: re.Pattern[str] | None = None


class _KnownTable(Struct, frozen=True):
    known: tuple[KnownDifference, ...] = ()


@cache
def load_known() -> tuple[KnownDifference, ...]:
    """Return the rows of ``known.toml``."""
    return toml.read_own_table(_FILE, _KnownTable).known


def find_reason(test: str, what: str, sides: str, observed: str = "", *, ended: bool = True) -> str:
    """Return why ``test`` is known to differ or to fail, else an empty string.

    ``sides`` are two builds, or of a failure the device. ``observed``: what the first side reported, in words;
    ``ended``: whether the test came to an end there, and did not end its process.
    """
    for row in load_known():
        if (
            what in row.what
            and any(fnmatchcase(sides, pattern) for pattern in row.sides)
            and row.tests.search(test)
            and (ended if row.said is None else row.said.search(observed))
        ):
            return row.reason
    return ""


def find_failure_reason(result: SuiteResult, label: str, device: str) -> str:
    """Return why a failure is known on that kind of device, else on that torch there."""
    ended = result.outcome != "died"
    return find_reason(result.id, "failure", device, result.why, ended=ended) or find_reason(
        result.id, "failure", f"{label}-{device}", result.why, ended=ended
    )


def tally_outcomes(results: Iterable[SuiteResult]) -> dict[str, dict[str, int]]:
    """Count outcomes: suite -> outcome -> number, with flaky tests as well."""
    by_suite: dict[str, Counter[str]] = {}
    for result in results:
        counts = by_suite.setdefault(result.suite, Counter())
        counts[result.outcome] += 1
        counts["flaky"] += result.flaky
    return {suite: {name: counts[name] for name in (*OUTCOMES, "flaky")} for suite, counts in by_suite.items()}


def count_skip_reasons(results: Iterable[SuiteResult]) -> Counter[str]:
    """Count the skipped tests for each reason."""
    first_lines = ((result.why.strip().splitlines() or [""])[0] for result in results if result.outcome == "skipped")
    return Counter(why.removeprefix("Skipped: ") or "no reason given" for why in first_lines)
