"""``decouple range-diff``: two series compared patch by patch, by Decouple-Id."""

from __future__ import annotations

import argparse

from decouple.base.checkout import Checkout
from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.patch import seriesfile
from decouple.series import check, rangediff


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    ranges = subparsers.add_parser("range-diff")
    ranges.add_argument("old")
    ranges.add_argument("new")
    ranges.add_argument("--patch", action="store_true", help="show how the texts of changed patches differ")
    ranges.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    project = find_project()
    lacking = {one.name for one in seriesfile.read(Checkout(project).series(arguments.new)).not_carried}
    rows = rangediff.compare(check.load(project, arguments.old), check.load(project, arguments.new), lacking)
    for row in rows:
        names = " -> ".join(patch.name for patch in (row.old, row.new) if patch)
        print(f"{row.status.value:13} {row.identity:32} {names}")
        if arguments.patch:
            print("".join(f"    {line}\n" for line in row.difference), end="")
    return OK
