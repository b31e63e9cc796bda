"""The census as JSON (diffable: one finding a line, stable ids, sorted) and as plain rows for a terminal."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from msgspec import to_builtins

from decouple.base.outside import written_json
from decouple.census.compare import CensusComparison, in_core
from decouple.census.finding import Census

SCHEMA = 1


def summary(comparison: CensusComparison) -> dict[str, Any]:
    """The numbers: key number, per module, per category and verdict."""
    after = comparison.after
    return {
        "release": comparison.release,
        "files": comparison.before.files,
        "files_of_category": files_of_category(comparison.before),
        "only_after": len(comparison.findings) - len(comparison.before.findings) if after else None,
        "key_number": {"before": comparison.key_before, "after": comparison.key_after},
        "modules": to_builtins(comparison.modules()),
        "categories": dict(sorted(Counter(f.category for f in comparison.before.findings).items())),
        "categories_in_core_after": dict(sorted(Counter(f.category for f in after.in_core).items())) if after else None,
        "verdicts": dict(sorted(Counter(f.verdict for f in comparison.findings).items())),
        "remaining": remaining(after) if after else None,
    }


def files_of_category(census: Census) -> dict[str, int]:
    """How many files hold a finding of each category."""
    pairs = {(finding.category, finding.path) for finding in census.findings}
    return dict(sorted(Counter(category for category, _ in pairs).items()))


def remaining(census: Census) -> list[dict[str, Any]]:
    """What stays in the core, as (category, reason) with a count; the reasons are the answer to "why is it there"."""
    counts = Counter((f.category, f.reason or "OPEN: no reason given") for f in census.findings if in_core(f))
    return [{"category": c, "reason": reason, "count": n} for (c, reason), n in sorted(counts.items())]


def as_json(comparison: CensusComparison) -> str:
    """The whole census. No times, no absolute paths: two runs on the same trees give the same bytes."""
    head = json.dumps(summary(comparison), indent=1, sort_keys=True, ensure_ascii=False)
    lines = ",\n".join(
        json.dumps(finding.as_json(), ensure_ascii=False, separators=(",", ":"))
        for finding in sorted(comparison.findings, key=lambda f: (f.origin, f.line, f.category, f.id))
    )
    return written_json(f'{{"schema": {SCHEMA},\n"summary": {head},\n"findings": [\n{lines}\n]}}\n')
