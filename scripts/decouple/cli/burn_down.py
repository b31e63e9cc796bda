"""``decouple burn-down``: how much is left, release by release."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import OK, UsageError
from decouple.base.files import write_atomically
from decouple.base.paths import find_project
from decouple.series import burndown


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    burn = subparsers.add_parser("burn-down")
    burn.add_argument(
        "--census", action="append", default=[], metavar="RELEASE=FILE", help="what `census --json` wrote"
    )
    burn.add_argument("--json", type=Path)
    burn.add_argument("--svg", type=Path, help="bars per release")
    burn.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Count and print."""
    project = find_project()
    census = dict(word.split("=", 1) for word in arguments.census if "=" in word)
    if len(census) != len(arguments.census):
        raise UsageError("--census takes RELEASE=FILE", next_step="e.g. --census 2.6=census.json")
    names = Checkout(project).releases()
    rows = [burndown.row(project, name, Path(census[name]) if name in census else None) for name in names]
    titles = f"{'patches':>9}{'not seen':>10}{'own':>6}{'moved':>8}{'changed':>9}{'quoted':>8}"
    print(f"{'series':8}{titles}{'couplings left':>16}")
    for row in rows:
        left = "no census" if row.couplings is None else f"{row.couplings} of {row.couplings_before}"
        counts = f"{row.patches:9}{row.not_seen:10}{row.own:6}{row.moved:8}{row.changed:9}{row.quoted:8}"
        print(f"{row.release:8}{counts}{left:>16}")
    for path, text in ((arguments.json, burndown.as_json(rows)), (arguments.svg, burndown.as_svg(rows))):
        if path:
            write_atomically(path, text)
            print(path)
    return OK
