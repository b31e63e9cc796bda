"""``decouple census``: every coupling to a vendor, before and after the series."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_output
from decouple.census.compare import CensusComparison
from decouple.census.html import render_html
from decouple.census.report import render_json, summarize_census
from decouple.census.taxonomy import DATA
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.shown import unwrap_stream
from decouple.cli.source_word import add_pristine_options
from decouple.flows.census import CensusRequest, take_census


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("census")
    add_pristine_options(parser)
    parser.add_argument("--applied", type=Path, metavar="DIR", help="the tree with the series on it")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--before", action="store_true", help="only the pristine tree")
    which.add_argument("--after", action="store_true", help="fail unless the applied tree is there")
    parser.add_argument("--json", type=output.parse_output, metavar="FILE", help="write every finding")
    parser.add_argument(
        "--html", type=output.parse_output, metavar="FILE", help="write the report, one file for a browser"
    )
    parser.add_argument("--couplings", action="store_true", help="list what needs a vendor at compile time, one a line")
    parser.add_argument(
        "--vendor",
        action="append",
        default=[],
        choices=sorted(DATA),
        help="whose couplings, may be given more than once (default: every vendor's)",
    )
    parser.add_argument("--also", type=Path, metavar="FILE", help="words, macros and rules of this tree alone (TOML)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.set_defaults(run=run_census)


def run_census(arguments: argparse.Namespace) -> int:
    """Return 1 if an applied series' core needs a vendor at compile time, else 0."""
    request = make_request(CensusRequest, arguments)
    taken = take_census(request, output.make_listener(for_program=arguments.couplings))
    if arguments.json:
        write_output(arguments.json, render_json(taken.comparisons, taken.series))
    if arguments.html:
        write_output(arguments.html, render_html(taken.comparisons))
    for comparison in taken.comparisons:
        if arguments.couplings:
            for finding in (comparison.after or comparison.before).needing_vendor:
                print(f"{finding.path}:{finding.line}: {finding.category} {finding.symbol}: {finding.detail}")
        else:
            _print_comparison(comparison, taken.before.files)
    return CHECK_FAILED if any(comparison.key_after for comparison in taken.comparisons) else OK


def _print_comparison(comparison: CensusComparison, files: int) -> None:
    numbers, title = summarize_census(comparison), comparison.before.title
    console = Console(file=unwrap_stream(sys.stdout))
    table = Table(
        title=f"PyTorch {comparison.release}: couplings to {title} outside third_device", title_justify="left"
    )
    for name in ("module", "before", "after", f"need {title} at compile time", "after"):
        table.add_column(name, justify="left" if name == "module" else "right")
    for row in numbers["modules"]:
        cells = (row["before"], row["after"], row["needing_vendor_before"], row["needing_vendor_after"])
        table.add_row(row["module"], *("-" if cell is None else str(cell) for cell in cells))
    console.print(table)
    if numbers["remaining"] is not None:
        table = Table(title="What remains outside third_device, and why", title_justify="left")
        table.add_column("category")
        table.add_column("count", justify="right")
        table.add_column("reason")
        for row in numbers["remaining"]:
            table.add_row(row["category"], str(row["count"]), row["reason"])
        console.print(table)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in numbers["verdicts"].items())
    console.print(f"{sum(numbers['verdicts'].values())} findings in {files} files: {verdicts}", soft_wrap=True)
    key = numbers["key_number"]
    after = "the series is not applied" if key["after"] is None else f"{key['after']} after the series (aim: 0)"
    console.print(
        f"in-core couplings that need {title} at compile time: {key['before']} before, {after}", soft_wrap=True
    )
