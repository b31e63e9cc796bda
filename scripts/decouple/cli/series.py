"""``decouple range-diff | burn-down | depends``: what a series says of itself, read without a checkout."""

from __future__ import annotations

import argparse
from pathlib import Path

from msgspec.structs import replace

from decouple.base.checkout import Checkout
from decouple.base.errors import OK, UsageError
from decouple.base.files import write_atomically
from decouple.base.paths import find_project
from decouple.cli.source_word import add_source_option
from decouple.release import status
from decouple.series import burndown, check, rangediff
from decouple.series.dependencies import find_dependencies
from decouple.upstream.named_sources import open_named_source


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    ranges = subparsers.add_parser("range-diff")
    ranges.add_argument("old")
    ranges.add_argument("new")
    ranges.add_argument("--patch", action="store_true", help="show how the texts of changed patches differ")
    ranges.set_defaults(run=_run_range_diff)
    burn = subparsers.add_parser("burn-down")
    burn.add_argument(
        "--census",
        action="append",
        default=[],
        metavar="RELEASE=FILE",
        help="what `census --json` wrote (default: the counts in ci/status)",
    )
    burn.add_argument("--json", type=Path)
    burn.add_argument("--svg", type=Path, help="bars per release")
    burn.set_defaults(run=_run_burn_down)
    depends = subparsers.add_parser("depends")
    depends.add_argument("release")
    add_source_option(depends)
    depends.set_defaults(run=_run_depends)


def _run_range_diff(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    project = find_project()
    for release in (arguments.old, arguments.new):
        Checkout(project).check_release(release)
    rows = rangediff.compare_series(
        check.load_series(project, arguments.old), check.load_series(project, arguments.new)
    )
    for row in rows:
        names = " -> ".join(patch.name for patch in (row.old, row.new) if patch)
        print(f"{row.status.value:13} {row.identity:32} {names}")
        if arguments.patch:
            print("".join(f"    {line}\n" for line in row.difference), end="")
    return OK


def _run_burn_down(arguments: argparse.Namespace) -> int:
    """Count and print."""
    project = find_project()
    census = dict(word.split("=", 1) for word in arguments.census if "=" in word)
    if len(census) != len(arguments.census):
        raise UsageError("--census takes RELEASE=FILE", next_step="e.g. --census 2.6=census.json")
    names = Checkout(project).list_releases()
    for release in census:
        Checkout(project).check_release(release)
    rows = [_make_row(project, name, Path(census[name]) if name in census else None) for name in names]
    titles = f"{'patches':>9}{'own':>6}{'moved':>8}{'changed':>9}{'quoted':>8}"
    print(f"{'series':8}{titles}{'couplings left':>16}")
    for row in rows:
        left = "not counted" if row.couplings is None else f"{row.couplings} of {row.couplings_before}"
        counts = f"{row.patches:9}{row.own:6}{row.moved:8}{row.changed:9}{row.quoted:8}"
        print(f"{row.release:8}{counts}{left:>16}")
    for path, text in ((arguments.json, burndown.render_json(rows)), (arguments.svg, burndown.render_svg(rows))):
        if path:
            write_atomically(path, text)
            print(path)
    return OK


def _make_row(project: Path, release: str, census: Path | None) -> burndown.BurnDownRow:
    """Measure a series; its couplings as ``census`` has them, else as ``record`` wrote them to ci/status."""
    row = burndown.measure_series(project, release, census)
    known = status.read_status(status.locate_status(project, release)).census
    if census or known is None:
        return row
    return replace(row, couplings=known.after, couplings_before=known.before)


def _run_depends(arguments: argparse.Namespace) -> int:
    """Find out and print."""
    project = find_project()
    series = check.load_series(project, arguments.release)
    opened, _ = open_named_source(project, arguments.release, arguments.source, check.list_wanted_paths(series))
    for name, needed in find_dependencies(series, opened.source).items():
        print(f"{name}: {', '.join(needed) or 'nothing'}")
    return OK
