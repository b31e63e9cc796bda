"""The report for a browser: one file, nothing loaded from elsewhere. Data here, drawing in ``report.html``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from decouple.base.outside import written_json
from decouple.census.compare import CensusComparison
from decouple.census.finding import Finding
from decouple.census.report import summary

TEMPLATE = Path(__file__).with_name("report.html")
MARK = "/*CENSUS*/null"


def as_html(comparison: CensusComparison) -> str:
    """The page. Repeated words are sent once, as tables that the rows index."""
    tables: dict[str, list[str]] = {"category": [], "module": [], "stage": [], "verdict": [], "reason": []}
    known: dict[str, dict[str, int]] = {name: {} for name in tables}

    def number(table: str, word: str) -> int:
        places = known[table]
        if word not in places:
            places[word] = len(tables[table])
            tables[table].append(word)
        return places[word]

    rows = [_row(finding, number) for finding in comparison.findings]
    data = {"summary": summary(comparison), "tables": tables, "rows": rows}
    return TEMPLATE.read_text(encoding="utf-8").replace(MARK, _in_script(data))


def _in_script(data: object) -> str:
    """``data`` as JSON that may stand in a ``script`` element, whatever words of others are in it.

    Not only ``</script`` ends one: behind ``<!--<script`` the next ``</script>`` does not.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return written_json(text)


def _row(finding: Finding, number: Callable[[str, str], int]) -> list[Any]:
    return [
        finding.id,
        finding.origin,
        finding.path if finding.path != finding.origin else 0,
        finding.line,
        finding.end_line,
        finding.symbol,
        finding.lines,
        finding.count,
        int(finding.needs_cuda),
        number("category", finding.category),
        number("module", finding.module),
        number("stage", finding.stage),
        number("verdict", finding.verdict),
        number("reason", finding.reason),
        finding.detail,
    ]
