"""Telling a rebase: Markdown for people, JSON for programs, annotations for CI hosts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from msgspec import to_builtins

from decouple.rebase.verdicts import Carried, Note, Verdict

_SHOWN_DIFF = 40  # lines of upstream's own diff on a terminal
_SHOWN = 12  # lines of a hunk in Markdown


def summary(carried: Sequence[Carried]) -> str:
    """One line: how many patches became what, the troubles last."""
    counted = Counter(one.verdict for one in carried)
    return ", ".join(f"{counted[one]} {one.value}" for one in Verdict if counted[one]) or "no patches"


def text(carried: Sequence[Carried]) -> str:
    """For a terminal: a line per patch, and what there is to say of it; all of a patch that stops."""
    width = max((len(one.name) for one in carried), default=0)
    lines = []
    for one in carried:
        lines.append(f"{one.name:<{width}}  {one.verdict.value}")
        shown = one.notes if one.verdict.stops else one.notes[:3]
        for note in shown[:20]:
            lines.append(f"    {_where(note)}{note.text}")
            lines += [f"        {line}" for line in _cut(note.upstream, _SHOWN_DIFF if one.verdict.stops else 0)]
        if len(one.notes) > len(shown[:20]):
            lines.append(f"    … and {len(one.notes) - len(shown[:20])} more (--format markdown shows all)")
    return "\n".join([*lines, summary(carried), ""])


def markdown(carried: Sequence[Carried], old: str, new: str) -> str:
    """The whole report: a table, then each patch that wants a look with the lines it expected and found."""
    rows = "".join(f"| `{one.name}` | {one.verdict.value} | {_short(one)} |\n" for one in carried)
    details = "".join(_details(one) for one in carried if one.verdict.stops or _has_lines(one))
    return f"# {old} to {new}\n\n{summary(carried)}.\n\n| patch | becomes | why |\n| --- | --- | --- |\n{rows}{details}"


def as_json(carried: Sequence[Carried], old: str, new: str) -> str:
    """Everything but the bodies of patches."""
    rows = [{"patch": one.name, "verdict": one.verdict.value, "notes": to_builtins(one.notes)} for one in carried]
    return json.dumps({"from": old, "to": new, "patches": rows}, indent=1, ensure_ascii=False) + "\n"


def ci_annotations(carried: Sequence[Carried]) -> list[str]:
    """GitHub's workflow commands, one per note of a patch that stops; GitLab and others show them as plain lines."""
    return [
        f"::error file=patches/{one.name},title={one.verdict.value}::{_escaped(_where(note) + note.text)}"
        for one in carried
        if one.verdict.stops
        for note in one.notes
    ]


def _short(one: Carried) -> str:
    if not one.notes:
        return ""
    first = one.notes[0]
    more = f" (and {len(one.notes) - 1} more)" if len(one.notes) > 1 else ""
    return f"{_where(first)}{first.text}{more}".replace("|", "\\|")


def _cut(lines: Sequence[str], most: int) -> Sequence[str]:
    """The first lines, and how many are left out; none where ``most`` is 0."""
    if len(lines) <= most or not most:
        return lines[:most]
    return [*lines[: most - 1], f"… {len(lines) - most + 1} more lines (--format markdown shows all)"]


def _details(one: Carried) -> str:
    parts = [f"\n## {one.name}: {one.verdict.value}\n"]
    for note in one.notes:
        parts.append(f"\n* {_where(note)}{note.text}\n")
        parts += [f"  * upstream: {commit}\n" for commit in note.commits]
        if note.upstream:
            parts.append("\n```diff\n" + "".join(f"{line}\n" for line in note.upstream) + "```\n")
        if note.expected or note.found:
            parts.append("\n```diff\n")
            parts += [f"-{line}\n" for line in note.expected[:_SHOWN]]
            parts += [f"+{line}\n" for line in note.found[:_SHOWN]]
            parts.append("```\n")
    return "".join(parts)


def _has_lines(one: Carried) -> bool:
    return any(note.found or note.upstream for note in one.notes)


def _where(note: Note) -> str:
    if not note.path:
        return ""
    return f"{note.path}:{note.line}: " if note.line else f"{note.path}: "


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
