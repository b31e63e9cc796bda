"""``decouple census``: every coupling to CUDA, before and after the series."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import CHECK_FAILED, OK, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from decouple.census.compare import Comparison, Edit
    from decouple.census.finding import Census
    from decouple.inventory.rules import RuleFile
    from decouple.syntax.include_graph import Edge


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    from decouple.cli import trees

    parser = subparsers.add_parser("census", help="every coupling to CUDA, before and after the series")
    parser.add_argument("release", help="a release that series/ has, such as 2.6")
    trees.add_arguments(parser)
    parser.add_argument("--applied", type=Path, metavar="DIR", help="the tree with the series on it")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--before", action="store_true", help="only the pristine tree")
    which.add_argument("--after", action="store_true", help="fail unless the applied tree is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every finding")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report, one file for a browser")
    parser.add_argument("--couplings", action="store_true", help="list what needs CUDA at compile time, one a line")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """1 when the series is applied and something in the core still needs CUDA at compile time."""
    from decouple.base.files import write_atomically
    from decouple.base.paths import build_dir, find_project
    from decouple.census.compare import compare
    from decouple.census.html import as_html
    from decouple.census.report import as_json
    from decouple.cli import trees
    from decouple.inventory.rules import load
    from decouple.relocate.plan import make_plan

    project = find_project()
    rules = load()
    pristine = trees.pristine(arguments)
    plan = make_plan(pristine, rules)
    moves = plan.mapping
    before = _census(pristine, rules, moves, arguments.jobs, plan.stage1)
    applied = arguments.applied or build_dir(project, arguments.release) / "src"
    after = None
    if not arguments.before and applied.is_dir():
        after = _census(applied, rules, moves, arguments.jobs)
    elif arguments.after or arguments.applied:
        raise UsageError(f"{applied}: no such tree", next_step=f"decouple apply {arguments.release}")
    comparison = compare(arguments.release, before, after, _edits(project, arguments.release) if after else {})
    if arguments.json:
        write_atomically(arguments.json, as_json(comparison))
    if arguments.html:
        write_atomically(arguments.html, as_html(comparison))
    if arguments.couplings:
        for finding in (after or before).needing_cuda:
            print(f"{finding.path}:{finding.line}: {finding.category} {finding.symbol}: {finding.detail}")
    else:
        _print(comparison)
    return CHECK_FAILED if comparison.key_after else OK


def _census(
    tree: Path, rules: RuleFile, moves: dict[str, str], jobs: int, stage1: Mapping[str, Edge | None] | None = None
) -> Census:
    from decouple.census import taxonomy
    from decouple.census.context import make_context
    from decouple.census.scan import scan
    from decouple.cli import output

    words = taxonomy.load(undefined=rules.stage1.undefined)
    return scan(make_context(tree, rules, moves, stage1), words, jobs=jobs, progress=output.progress())


def _edits(project: Path, release: str) -> dict[str, Sequence[Edit]]:
    """Which patch of the series removes which lines of which file."""
    from decouple.census.compare import Edit
    from decouple.patch import parse as patch
    from decouple.patch import seriesfile

    out: dict[str, list[Edit]] = {}
    for name in seriesfile.read(project / "series" / release).names:
        for change in patch.read(project / "patches" / name).files:
            lines = [line.text.decode("utf-8", "replace") for h in change.hunks for line in h.lines if line.kind == "-"]
            for path in change.paths:
                if lines:
                    out.setdefault(path, []).append(Edit(Path(name).stem, tuple(lines)))
    return dict(out)


def _print(comparison: Comparison) -> None:
    import sys

    from rich.console import Console
    from rich.table import Table

    from decouple.census.report import summary
    from decouple.cli.shown import bare

    numbers = summary(comparison)
    console = Console(file=bare(sys.stdout))
    table = Table(title=f"PyTorch {comparison.release}: couplings to CUDA outside third_device", title_justify="left")
    for name in ("module", "before", "after", "need CUDA at compile time", "after"):
        table.add_column(name, justify="left" if name == "module" else "right")
    for row in numbers["modules"]:
        cells = (row["before"], row["after"], row["needing_cuda_before"], row["needing_cuda_after"])
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
    console.print(
        f"{sum(numbers['verdicts'].values())} findings in {numbers['files']} files: {verdicts}", soft_wrap=True
    )
    key = numbers["key_number"]
    after = "the series is not applied" if key["after"] is None else f"{key['after']} after the series (aim: 0)"
    console.print(f"in-core couplings that need CUDA at compile time: {key['before']} before, {after}", soft_wrap=True)
