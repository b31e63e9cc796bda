"""``decouple check``: what would become of every patch on a source, without a checkout."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import asked
from decouple.cli.source_word import source_option
from decouple.flows.check import Check, check
from decouple.series.check import Conflict, PatchFit


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``check``."""
    command = subparsers.add_parser(
        "check",
        description="Apply the series of RELEASE in memory to the files it touches, read from SOURCE without a "
        "checkout. Exit code 1 if a patch conflicts, is upstream already, or its target is gone; --strict: also if one "
        "has an offset or is ambiguous.",
    )
    command.add_argument("release", metavar="RELEASE", help="as named in series/")
    source_option(command)
    command.add_argument(
        "--debian-patches", action="store_true", help="on Debian's source with Debian's patches applied"
    )
    command.add_argument("--under", type=Path, metavar="FOLDER", help="apply the series in FOLDER first")
    command.add_argument("--strict", action="store_true", help="offsets and ambiguous patches fail the check, too")
    command.add_argument("--offline", action="store_true", help="use only what is in the cache")
    command.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    command.add_argument("-v", "--verbose", action="store_true", help="show the lines of every conflict in full")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check and print; 1 if the series would not apply."""
    request = asked(Check, arguments)
    found = check(request, output.listener())
    if arguments.json:
        print(json.dumps([_record(verdict) for verdict in found.verdicts], indent=2))
    else:
        print(f"{arguments.release} on {found.described}")
        for verdict in found.verdicts:
            print("\n".join(_lines(verdict, verbose=arguments.verbose)))
        counts = Counter(verdict.status.value for verdict in found.verdicts)
        print(f"{len(found.verdicts)} patches: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return OK if found.applies(strict=arguments.strict) else CHECK_FAILED


def _lines(verdict: PatchFit, *, verbose: bool) -> list[str]:
    files = len(verdict.patch.files)
    extra = ""
    if verdict.offsets:
        extra = f" (up to {verdict.furthest} lines)"
    if verdict.unseen:
        extra += f" ({len(verdict.unseen)} of {files} files not in this source)"
    lines = [f"{verdict.status.value:16} {verdict.patch.name}{extra}"]
    for path, placed in verdict.offsets:
        choices = f"; {placed.choices} places match" if placed.choices > 1 else ""
        lines.append(f"    {path}: hunk {placed.number} at line {placed.line}, offset {placed.offset:+d}{choices}")
    for conflict in verdict.conflicts if verbose else verdict.conflicts[:5]:
        lines += _conflict(conflict, verdict, verbose=verbose)
    if not verbose and len(verdict.conflicts) > 5:
        lines.append(f"    and {len(verdict.conflicts) - 5} more files; -v shows all")
    if verdict.after:
        lines.append(f"    perhaps only because of {', '.join(verdict.after)}, which failed before")
    return lines


def _conflict(conflict: Conflict, verdict: PatchFit, *, verbose: bool) -> list[str]:
    failure = conflict.failure
    where = f" (patches/{verdict.patch.name}:{failure.hunk.line})" if failure.hunk else ""
    lines = [f"    {failure.message}{where}" + ("; this file has the change already" if conflict.present else "")]
    if not failure.hunk:
        return lines
    if not failure.found:
        lines.append("      none of its lines is in the file")
        return lines
    expected = [_shown(line) for line in failure.hunk.old_lines]
    found = [_shown(line) for line in failure.found]
    lines.append(f"      closest at line {failure.near}; < expected, > found:")
    different = _compared(expected, found)
    shown = different if verbose else different[:12]
    lines += [f"      {line}" for line in shown]
    if len(shown) < len(different):
        lines.append(f"      … {len(different) - len(shown)} more lines; -v shows all")
    return lines


def _compared(expected: list[str], found: list[str]) -> list[str]:
    """The lines that differ, each with ``<`` or ``>``."""
    import difflib  # only for a conflict

    compared = difflib.ndiff(expected, found, linejunk=None, charjunk=None)
    return [
        line.replace("-", "<", 1) if line[0] == "-" else line.replace("+", ">", 1)
        for line in compared
        if line[0] in "-+"
    ]


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return text[:-1] if text.endswith("\n") else text + "  [no newline]"


def _record(verdict: PatchFit) -> dict[str, Any]:
    return {
        "patch": verdict.patch.name,
        "id": verdict.patch.header.decouple_id,
        "status": verdict.status.value,
        "offsets": [
            {"path": path, "hunk": p.number, "line": p.line, "offset": p.offset, "choices": p.choices}
            for path, p in verdict.offsets
        ],
        "conflicts": [
            {
                "path": conflict.path,
                "kind": conflict.failure.kind,
                "message": conflict.failure.message,
                "hunk": conflict.failure.number or None,
                "patch line": conflict.failure.hunk.line if conflict.failure.hunk else None,
                "near": conflict.failure.near or None,
                "expected": [_shown(line) for line in conflict.failure.hunk.old_lines] if conflict.failure.hunk else [],
                "found": [_shown(line) for line in conflict.failure.found],
                "already there": conflict.present,
            }
            for conflict in verdict.conflicts
        ],
        "unseen": list(verdict.unseen),
        "after": list(verdict.after),
    }
