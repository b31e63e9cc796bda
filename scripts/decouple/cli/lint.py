"""``decouple lint``: every fault of every patch in one run."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from functools import partial

from msgspec import to_builtins

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.patch.faults import CODES, Fault
from decouple.recipes.model import is_explained, load_recipes
from decouple.series.lint import LintReport, lint_series


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``lint``."""
    command = subparsers.add_parser(
        "lint",
        description="List every fault of the series files and patches, one per line. Exit code 1 if there is any.",
    )
    command.add_argument("release", nargs="*", metavar="RELEASE", help="as named in series/ (all)")
    command.add_argument("--format", choices=("plain", "json", "github"), default="plain", help="how to print (plain)")
    command.add_argument("--codes", action="store_true", help="list the codes and what they stand for")
    command.set_defaults(run=run_lint)


def run_lint(arguments: argparse.Namespace) -> int:
    """Lint and print; 1 if anything is wrong."""
    if arguments.codes:
        width = max(map(len, CODES))
        for code, meaning in CODES.items():
            print(f"{code:{width}}  {meaning}")
        return OK
    project = find_project()
    report = lint_series(project, list(dict.fromkeys(arguments.release)), partial(is_explained, load_recipes(project)))
    print(_format_report(report, arguments.format), end="")
    return CHECK_FAILED if report.faults else OK


def _format_report(report: LintReport, form: str) -> str:
    if form == "json":
        return json.dumps(to_builtins(report.faults), indent=2) + "\n"
    if form == "github":
        return "".join(_format_annotation(fault) + "\n" for fault in report.faults)
    counts = Counter(fault.code for fault in report.faults)
    codes = ", ".join(f"{count} {code}" for code, count in counts.most_common()) or "no faults"
    place = f"{report.patches} patches of {len(report.series)} series ({', '.join(report.series)})"
    return "".join(f"{fault}\n" for fault in report.faults) + f"{place}: {codes}\n"


def _format_annotation(fault: Fault) -> str:
    """Format an error for GitHub Actions (docs.github.com, "Workflow commands")."""

    def escape_text(text: str, also: str = "") -> str:
        for letter in "%\r\n" + also:
            text = text.replace(letter, f"%{ord(letter):02X}")
        return text

    place = f"file={escape_text(fault.file, ':,')},line={fault.line},title={escape_text(fault.code, ':,')}"
    return f"::error {place}::{escape_text(fault.message)}"
