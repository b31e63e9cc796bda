"""Forecast every patch of a series against every release with a source.

It is done before anybody rebases. A release may be there as a full tree, or as the Python files and headers of its
official wheel; what a source does not show is "not seen", never "clean".
"""

from __future__ import annotations

import html
import json
from collections import Counter
from importlib import resources

from msgspec import Struct

from decouple.patch.parse import Patch
from decouple.series.check import Fit, PatchFit

NOT_SEEN = "not seen"
_ORDER = (
    Fit.CONFLICT, Fit.GONE, Fit.AMBIGUOUS, Fit.UPSTREAM, Fit.MADE, Fit.OFFSET, Fit.CLEAN,
    Fit.UNSEEN,
)  # fmt: skip


_LETTERS = {
    Fit.CLEAN: ".", Fit.OFFSET: "~", Fit.MADE: "+", Fit.UPSTREAM: "=", Fit.AMBIGUOUS: "?",
    Fit.CONFLICT: "X", Fit.GONE: "G", Fit.UNSEEN: " ",
}  # fmt: skip


class Column(Struct, frozen=True):
    """A release: its name, what was read of it, and one verdict per patch.

    Or why there is no source.
    """

    release: str
    described: str
    verdicts: tuple[PatchFit, ...] = ()
    missing: str = ""

    @property
    def is_judged(self) -> bool:
        """Say whether anything is known: there is a source, and it shows a patch's file."""
        return not self.missing and not (self.verdicts and all(fit.status is Fit.UNSEEN for fit in self.verdicts))


class Forecast(Struct, frozen=True):
    """The matrix: one verdict per patch and release."""

    series: str
    patches: tuple[Patch, ...]
    columns: tuple[Column, ...]

    @property
    def worst(self) -> Fit | None:
        """Return the worst verdict of all, None when nothing could be seen."""
        statuses = {verdict.status for column in self.columns for verdict in column.verdicts}
        return next((status for status in _ORDER if status in statuses), None)


def describe_verdict(verdict: PatchFit) -> str:
    """Return what a cell says.

    It is the status, and "part" when the source shows only some of the patch's files.
    """
    if verdict.status is Fit.UNSEEN:
        return NOT_SEEN
    shown = len(verdict.patch.files) - len(verdict.unseen)
    return (
        f"{verdict.status.value} ({shown} of {len(verdict.patch.files)} files)"
        if verdict.unseen
        else verdict.status.value
    )


def describe_column(column: Column) -> str:
    """Describe a release in one line."""
    if column.missing:
        return column.missing
    counts = Counter(verdict.status for verdict in column.verdicts)
    return ", ".join(f"{counts[s]} {NOT_SEEN if s is Fit.UNSEEN else s.value}" for s in _ORDER if counts[s])


def name_other_way(forecast: Forecast) -> str:
    """Return the line that names releases with a stop, else "".

    It names the command that looks for a way with fewer.
    """
    stops = {Fit.CONFLICT, Fit.GONE, Fit.AMBIGUOUS}
    found = [column.release for column in forecast.columns if stops & {verdict.status for verdict in column.verdicts}]
    if not found:
        return ""
    command = f"decouple rebase {forecast.series} RELEASE --report"
    return f"{', '.join(found)}: `{command}` looks for a way over the releases between that stops less"


def render_json(forecast: Forecast) -> str:
    """Write everything as JSON, one object per release."""
    releases = [
        {
            "release": column.release,
            "source": column.described,
            "missing": column.missing,
            "patches": [
                {
                    "patch": verdict.patch.name,
                    "id": verdict.patch.header.decouple_id,
                    "status": NOT_SEEN if verdict.status is Fit.UNSEEN else verdict.status.value,
                    "files": len(verdict.patch.files),
                    "files_not_seen": len(verdict.unseen),
                    "why": _explain_verdict(verdict),
                }
                for verdict in column.verdicts
            ],
        }
        for column in forecast.columns
    ]
    return json.dumps({"series": forecast.series, "releases": releases}, indent=1) + "\n"


def render_html(forecast: Forecast) -> str:
    """Write a self-contained page.

    It has the matrix, and under each cell that wants a look why.
    """
    template = resources.files("decouple.series").joinpath("forecast.html").read_text(encoding="utf-8")
    head = "".join(f"<th>{html.escape(column.release)}</th>" for column in forecast.columns)
    rows = "".join(
        f"<tr><th>{html.escape(patch.name)}</th>"
        + "".join(
            _render_cell(column.verdicts[number]) if column.verdicts else "<td></td>" for column in forecast.columns
        )
        + "</tr>\n"
        for number, patch in enumerate(forecast.patches)
    )
    sources = "".join(
        f"<td><small>{html.escape(column.described or column.missing)}</small></td>" for column in forecast.columns
    )
    totals = "".join(f"<td>{html.escape(describe_column(column))}</td>" for column in forecast.columns)
    return (
        template.replace("<!-- series -->", html.escape(forecast.series))
        .replace("<!-- head -->", head)
        .replace("<!-- rows -->", rows)
        .replace("<!-- totals -->", totals)
        .replace("<!-- sources -->", sources)
    )


def _render_cell(verdict: PatchFit) -> str:
    kind = verdict.status.name.lower() + (" part" if verdict.unseen and verdict.status is not Fit.UNSEEN else "")
    reasons = _explain_verdict(verdict)
    status, part, rest = html.escape(describe_verdict(verdict)).partition(" (")
    text = f"{status}<small>{part.lstrip()}{rest}</small>" if part else status
    if not reasons:
        return f'<td class="{kind}">{text}</td>'
    items = "".join(f"<li>{html.escape(reason)}</li>" for reason in reasons)
    return f'<td class="{kind}"><details><summary>{text}</summary><ul>{items}</ul></details></td>'


def _explain_verdict(verdict: PatchFit) -> list[str]:
    offsets = [f"{path}: hunk {placed.number} offset {placed.offset:+d}" for path, placed in verdict.offsets]
    conflicts = [conflict.failure.message for conflict in verdict.conflicts]
    after = [f"perhaps only because of {', '.join(verdict.after)}, which failed before"] if verdict.after else []
    return [*offsets, *conflicts, *after]


def render_text(forecast: Forecast) -> list[str]:
    """Write the matrix in plain text, one letter a cell.

    See :func:`render_legend`.
    """
    width = max((len(patch.name) for patch in forecast.patches), default=5)
    lines = [" " * width + "  " + " ".join(f"{column.release:>5}" for column in forecast.columns)]
    for number, patch in enumerate(forecast.patches):
        row = []
        for column in forecast.columns:
            verdict = column.verdicts[number] if column.verdicts else None
            letter = _LETTERS[verdict.status] if verdict else "-"
            part = verdict is not None and verdict.unseen and verdict.status is not Fit.UNSEEN
            row.append(f"{f'({letter})' if part else f'{letter} ':>5}")
        lines.append(f"{patch.name:<{width}}  " + " ".join(row))
    return lines


def render_legend() -> str:
    """Return what the letters of the matrix mean, in one line."""
    named = [f"{letter} {status.value}" for status, letter in _LETTERS.items() if letter.strip()]
    return "  ".join([*named, f"blank: {NOT_SEEN}", "in brackets: judged on part of its files"])
