"""``decouple check``: tell what would become of every patch, without a checkout."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_source_option
from decouple.flows.check import CheckRequest, check_series, list_dependencies
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
    add_source_option(command)
    command.add_argument(
        "--debian-patches", action="store_true", help="on Debian's source with Debian's patches applied"
    )
    command.add_argument("--under", type=Path, metavar="FOLDER", help="apply the series in FOLDER first")
    command.add_argument("--depends", action="store_true", help="name the earlier patches that each one needs instead")
    command.add_argument("--strict", action="store_true", help="offsets and ambiguous patches fail the check, too")
    command.add_argument("--offline", action="store_true", help="use only what is in the cache")
    command.add_argument("--json", action="store_true", help="print the verdicts as JSON")
    command.add_argument("-v", "--verbose", action="store_true", help="show the lines of every conflict in full")
    command.set_defaults(run=run_check)


def run_check(arguments: argparse.Namespace) -> int:
    """Check and print; 1 if the series would not apply."""
    request = make_request(CheckRequest, arguments)
    if arguments.depends:
        return _print_dependencies(request, arguments)
    checked = check_series(request, output.make_listener(for_program=arguments.json))
    if arguments.json:
        print(json.dumps([_make_record(verdict) for verdict in checked.verdicts], indent=2))
    else:
        print(f"{arguments.release} on {checked.described}")
        for verdict in checked.verdicts:
            print("\n".join(_format_lines(verdict, verbose=arguments.verbose)))
        counts = Counter(verdict.status.value for verdict in checked.verdicts)
        print(f"{len(checked.verdicts)} patches: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return OK if checked.can_apply(strict=arguments.strict) else CHECK_FAILED


def _print_dependencies(request: CheckRequest, arguments: argparse.Namespace) -> int:
    for option in ("under", "debian_patches", "strict"):
        if getattr(arguments, option):
            raise UsageError(
                f"--{option.replace('_', '-')}: says nothing about what patches need of each other",
                next_step="leave it out, or --depends",
            )
    needed = list_dependencies(request, output.make_listener(for_program=arguments.json))
    if arguments.json:
        print(json.dumps({name: list(names) for name, names in needed.items()}, indent=2))
    else:
        print("\n".join(f"{name}: {', '.join(names) or 'nothing'}" for name, names in needed.items()))
    return OK


def _format_lines(verdict: PatchFit, *, verbose: bool) -> list[str]:
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
        lines += _format_conflict(conflict, verdict, verbose=verbose)
    if not verbose and len(verdict.conflicts) > 5:
        lines.append(f"    and {len(verdict.conflicts) - 5} more files; -v shows all")
    lines += [f"    {note}" for note in (verdict.notes if verbose else verdict.notes[:5])]
    if not verbose and len(verdict.notes) > 5:
        lines.append(f"    and {len(verdict.notes) - 5} more files that rules place otherwise; -v shows all")
    if verdict.after:
        lines.append(f"    perhaps only because of {', '.join(verdict.after)}, which failed before")
    return lines


def _format_conflict(conflict: Conflict, verdict: PatchFit, *, verbose: bool) -> list[str]:
    failure = conflict.failure
    place = f" (patches/{verdict.patch.name}:{failure.hunk.line})" if failure.hunk else ""
    lines = [f"    {failure.message}{place}" + ("; this file has the change already" if conflict.present else "")]
    if not failure.hunk:
        return lines
    if not failure.found:
        lines.append("      none of its lines is in the file")
        return lines
    expected = [_show_line(line) for line in failure.hunk.old_lines]
    context = [_show_line(line) for line in failure.found]
    lines.append(f"      closest at line {failure.near}; < expected, > found:")
    different = _compare_lines(expected, context)
    shown = different if verbose else different[:12]
    lines += [f"      {line}" for line in shown]
    if len(shown) < len(different):
        lines.append(f"      … {len(different) - len(shown)} more lines; -v shows all")
    return lines


def _compare_lines(expected: list[str], present: list[str]) -> list[str]:
    """Return the lines that differ, each with ``<`` or ``>``."""
    import difflib  # only for a conflict

    compared = difflib.ndiff(expected, present, linejunk=None, charjunk=None)
    return [
        line.replace("-", "<", 1) if line[0] == "-" else line.replace("+", ">", 1)
        for line in compared
        if line[0] in "-+"
    ]


def _show_line(line: bytes) -> str:
    text = line.decode("utf-8", "backslashreplace")
    return text[:-1] if text.endswith("\n") else text + "  [no newline]"


def _make_record(verdict: PatchFit) -> dict[str, Any]:
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
                "expected": [_show_line(line) for line in conflict.failure.hunk.old_lines]
                if conflict.failure.hunk
                else [],
                "found": [_show_line(line) for line in conflict.failure.found],
                "already there": conflict.present,
            }
            for conflict in verdict.conflicts
        ],
        "unseen": list(verdict.unseen),
        "after": list(verdict.after),
        "notes": list(verdict.notes),
    }
