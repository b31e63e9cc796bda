"""``decouple contract-table``: what proves each item of the contract, in docs/contract.md."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.device import items


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    table = subparsers.add_parser("contract-table")
    table.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    table.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the table; with ``--check`` 1 when it is out of date."""
    project = find_project()
    found = items.read(project)
    differed = items.insert(project / items.PAGE, items.table(found), write=not arguments.check)
    if differed and arguments.check:
        print(f"{items.PAGE} is out of date: run `decouple contract-table`")
        return CHECK_FAILED
    print(f"{items.PAGE}: {len(found)} items, {len({test for item in found for test in item.tests})} tests")
    return OK
