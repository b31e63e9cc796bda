"""Report a rebase: Markdown for people, JSON for programs, annotations for CI."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, to_builtins

from decouple.rebase.verdicts import CarryResult, Note, Verdict

_SHOWN_DIFF = 40  # lines of upstream's own diff on a terminal
_SHOWN = 12  # lines of a hunk in Markdown


class CarriedLeg(Struct, frozen=True):
    """What became of each patch from one version to the next of a way."""

    old: str
    new: str
    carried: Sequence[CarryResult]


def format_summary(carried: Sequence[CarryResult]) -> str:
    """Return one line: how many patches became what, the troubles last."""
    counted = Counter(one.verdict for one in carried)
    return ", ".join(f"{counted[one]} {one.value}" for one in Verdict if counted[one]) or "no patches"


def format_text(carried: Sequence[CarryResult]) -> str:
    """Return the report for a terminal.

    A line per patch and what there is to say of it; all of a patch that stops.
    """
    width = max((len(result.name) for result in carried), default=0)
    lines = []
    for result in carried:
        lines.append(f"{result.name:<{width}}  {result.verdict.value}")
        shown = result.notes if result.verdict.is_stop else result.notes[:3]
        for note in shown[:20]:
            lines.append(f"    {_format_place(note)}{note.text}")
            lines += [
                f"        {line}" for line in _cut_lines(note.upstream, _SHOWN_DIFF if result.verdict.is_stop else 0)
            ]
            lines += [f"        upstream: {commit}" for commit in note.commits]
        if len(result.notes) > len(shown[:20]):
            lines.append(f"    … and {len(result.notes) - len(shown[:20])} more (--format markdown shows all)")
    return "\n".join([*lines, format_summary(carried), ""])


def format_markdown(carried: Sequence[CarryResult], old: str, new: str) -> str:
    """Return the whole report: a table, then the patches that want a look.

    Those with the lines that they expected and found.
    """
    rows = "".join(f"| `{result.name}` | {result.verdict.value} | {_format_short(result)} |\n" for result in carried)
    details = "".join(_format_details(result) for result in carried if result.verdict.is_stop or _has_lines(result))
    table = f"| patch | becomes | why |\n| --- | --- | --- |\n{rows}"
    return f"# {old} to {new}\n\n{format_summary(carried)}.\n\n{table}{details}"


def format_json(legs: Sequence[CarriedLeg]) -> str:
    """Return everything but the bodies of patches, as one JSON document.

    Each row says between which versions of the way it is.
    """
    rows = [
        {
            "patch": result.name,
            "from": leg.old,
            "to": leg.new,
            "verdict": result.verdict.value,
            "notes": to_builtins(result.notes),
        }
        for leg in legs
        for result in leg.carried
    ]
    document = {"from": legs[0].old, "to": legs[-1].new, "patches": rows}
    return json.dumps(document, indent=1) + "\n"


def format_ci_annotations(carried: Sequence[CarryResult]) -> list[str]:
    """Return GitHub's workflow commands, one per note of a patch that stops.

    GitLab and others show them as plain lines.
    """
    return [
        f"::error file=patches/{result.name},title={result.verdict.value}::"
        + _escape_text("\n".join([_format_place(note) + note.text, *(f"upstream: {one}" for one in note.commits)]))
        for result in carried
        if result.verdict.is_stop
        for note in result.notes
    ]


def _format_short(result: CarryResult) -> str:
    if not result.notes:
        return ""
    first = result.notes[0]
    more = f" (and {len(result.notes) - 1} more)" if len(result.notes) > 1 else ""
    return f"{_format_place(first)}{first.text}{more}".replace("|", "\\|")


def _cut_lines(lines: Sequence[str], most: int) -> Sequence[str]:
    """Return the first lines and how many are left out; none where ``most`` is 0."""
    if len(lines) <= most or not most:
        return lines[:most]
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more lines (--format markdown shows all)"]


def _format_details(result: CarryResult) -> str:
    parts = [f"\n## {result.name}: {result.verdict.value}\n"]
    for note in result.notes:
        parts.append(f"\n* {_format_place(note)}{note.text}\n")
        parts += [f"  * upstream: {commit}\n" for commit in note.commits]
        if note.upstream:
            parts.append("\n```diff\n" + "".join(f"{line}\n" for line in note.upstream) + "```\n")
        if note.expected or note.found:
            parts.append("\n```diff\n")
            parts += [f"-{line}\n" for line in note.expected[:_SHOWN]]
            parts += [f"+{line}\n" for line in note.found[:_SHOWN]]
            parts.append("```\n")
    return "".join(parts)


def _has_lines(result: CarryResult) -> bool:
    return any(note.found or note.upstream for note in result.notes)


def _format_place(note: Note) -> str:
    if not note.path:
        return ""
    return f"{note.path}:{note.line}: " if note.line else f"{note.path}: "


def _escape_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
