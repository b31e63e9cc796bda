"""Render the report for a browser: one file that loads nothing from elsewhere.

The data is made here, the drawing in ``report.html``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from decouple.base.untrusted_input import escape_surrogates
from decouple.census.compare import CensusComparison
from decouple.census.finding import Finding
from decouple.census.report import summarize_vendors

TEMPLATE = Path(__file__).with_name("report.html")
MARK = "/*CENSUS*/null"


def render_html(comparisons: Sequence[CensusComparison]) -> str:
    """Render the page. Repeated words are sent once, as tables that the rows index."""
    tables: dict[str, list[str]] = {
        "vendor": [],
        "category": [],
        "module": [],
        "stage": [],
        "verdict": [],
        "reason": [],
    }
    indexes: dict[str, dict[str, int]] = {name: {} for name in tables}

    def index_word(table: str, word: str) -> int:
        table_indexes = indexes[table]
        if word not in table_indexes:
            table_indexes[word] = len(tables[table])
            tables[table].append(word)
        return table_indexes[word]

    rows = [
        _encode_row(comparison.vendor, finding, index_word)
        for comparison in comparisons
        for finding in comparison.findings
    ]
    data = {"summary": summarize_vendors(comparisons), "tables": tables, "rows": rows}
    return TEMPLATE.read_text(encoding="utf-8").replace(MARK, _escape_for_script(data))


def _escape_for_script(data: object) -> str:
    """Return ``data`` as JSON that may stand in a ``script`` element.

    Not only ``</script`` ends one: behind ``<!--<script`` the next ``</script>`` does not.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return escape_surrogates(text)


def _encode_row(vendor: str, finding: Finding, number: Callable[[str, str], int]) -> list[Any]:
    return [
        finding.id,
        finding.origin,
        finding.path if finding.path != finding.origin else 0,
        finding.line,
        finding.end_line,
        finding.symbol,
        finding.lines,
        finding.count,
        int(finding.needs_vendor),
        number("category", finding.category),
        number("module", finding.module),
        number("stage", finding.stage),
        number("verdict", finding.verdict),
        number("reason", finding.reason),
        finding.detail,
        number("vendor", vendor),
    ]
