"""Render the census as JSON, and read back what it says of each vendor.

The JSON is diffable: one finding a line, stable ids, sorted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from decouple.base.errors import DecoupleError
from decouple.base.untrusted_input import escape_surrogates, read_json
from decouple.census.compare import CensusComparison, in_core
from decouple.census.finding import Census
from decouple.census.taxonomy import DATA

SCHEMA = 2


def summarize_census(comparison: CensusComparison) -> dict[str, Any]:
    """Return one vendor's numbers: key number, per module, per category and verdict."""
    after = comparison.after
    return {
        "title": comparison.before.title,
        "files_of_category": count_files_by_category(comparison.before),
        "only_after": len(comparison.findings) - len(comparison.before.findings) if after else None,
        "key_number": {"before": comparison.key_before, "after": comparison.key_after},
        "modules": to_builtins(comparison.count_modules()),
        "categories": dict(sorted(Counter(finding.category for finding in comparison.before.findings).items())),
        "categories_in_core_after": dict(sorted(Counter(finding.category for finding in after.in_core).items()))
        if after
        else None,
        "verdicts": dict(sorted(Counter(finding.verdict for finding in comparison.findings).items())),
        "remaining": count_remaining(after) if after else None,
    }


def count_files_by_category(census: Census) -> dict[str, int]:
    """Return how many files hold a finding of each category."""
    pairs = {(finding.category, finding.path) for finding in census.findings}
    return dict(sorted(Counter(category for category, _ in pairs).items()))


def count_remaining(census: Census) -> list[dict[str, Any]]:
    """Count what stays in the core by (category, reason).

    The reasons are the answer to "why is it there".
    """
    counts = Counter(
        (finding.category, finding.reason or "OPEN: no reason given") for finding in census.findings if in_core(finding)
    )
    return [{"category": c, "reason": reason, "count": n} for (c, reason), n in sorted(counts.items())]


def summarize_vendors(comparisons: Sequence[CensusComparison]) -> dict[str, Any]:
    """Return what is said of the tree, and each vendor's numbers under its word."""
    return {
        "release": comparisons[0].release,
        "files": comparisons[0].before.files,
        "vendors": {comparison.vendor: summarize_census(comparison) for comparison in comparisons},
    }


def render_json(comparisons: Sequence[CensusComparison], series: str | None = None) -> str:
    """Render the whole census as JSON, every vendor's findings with its word.

    ``series`` is the digest of what is on the applied tree. No times, no absolute paths: two runs on the same trees
    give the same bytes.
    """
    summary = {**summarize_vendors(comparisons), "series": series}
    head = json.dumps(summary, indent=1, sort_keys=True, ensure_ascii=False)
    lines = ",\n".join(
        json.dumps({"vendor": comparison.vendor, **finding.as_json()}, ensure_ascii=False, separators=(",", ":"))
        for comparison in comparisons
        for finding in sorted(
            comparison.findings, key=lambda finding: (finding.origin, finding.line, finding.category, finding.id)
        )
    )
    return escape_surrogates(f'{{"schema": {SCHEMA},\n"summary": {head},\n"findings": [\n{lines}\n]}}\n')


_Count = Annotated[int, Meta(ge=0)]


class _KeyNumber(Struct, frozen=True):
    before: _Count
    after: _Count


class _VendorSummary(Struct, frozen=True):
    key_number: _KeyNumber


class _Summary(Struct, frozen=True):
    release: str
    vendors: Mapping[str, _VendorSummary]
    series: str | None = None


class _CensusFile(Struct, frozen=True):
    schema: int
    summary: _Summary


def read_couplings(census: Path, release: str, series: str) -> dict[str, tuple[int, int]]:
    """Return each vendor's couplings before and after the series.

    They are read from what ``decouple census --json`` wrote of ``release`` with the series of that digest on it. Every
    vendor is among them, else a record would keep another series' count of one. Raises DecoupleError.
    """
    mend = f"decouple census {release} --json FILE"
    file = read_json(census, _CensusFile, mend=mend)
    summary = file.summary
    if file.schema != SCHEMA:
        raise DecoupleError(f"{census}: schema: expected {SCHEMA}, found {file.schema}", next_step=mend)
    if summary.release != release:
        raise DecoupleError(f"{census}: summary.release: a census of {summary.release}, not {release}", next_step=mend)
    if summary.series != series:
        found = (
            f"another ({summary.series[:8]})" if summary.series else "none that `decouple apply` put there, or edits"
        )
        raise DecoupleError(
            f"{census}: summary.series: the tree had not this checkout's series on it ({series[:8]}), but {found}",
            next_step=f"decouple apply {release}, then {mend}",
        )
    if lacking := [word for word in DATA if word not in summary.vendors]:
        raise DecoupleError(f"{census}: summary.vendors has no {lacking[0]}", next_step=mend)
    return {word: (vendor.key_number.before, vendor.key_number.after) for word, vendor in summary.vendors.items()}
