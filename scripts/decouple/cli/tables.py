"""``decouple status-table | contract-table``: tables in the documents, of what was recorded and what is tested."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.device import items
from decouple.release import status, status_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    for name, run, what in (("status-table", _status, "they are"), ("contract-table", _contract, "the page is")):
        table = subparsers.add_parser(name)
        table.add_argument("--check", action="store_true", help=f"only say whether {what} up to date")
        table.set_defaults(run=run)


def _status(arguments: argparse.Namespace) -> int:
    """Write the tables; with ``--check`` 1 when one is out of date."""
    project = find_project()
    found = {path.stem: status.read(path) for path in sorted((project / "ci" / "status").glob("*.json"))}
    pages = {
        project / "README.md": status_table.summarize(found),
        project / "docs" / "proofs.md": status_table.tabulate_proofs(found),
        project / "docs" / "status.md": status_table.matrix(found),
        project / "docs" / "suites.md": status_table.suites(found),
    }
    code = OK
    for page, text in pages.items():
        if arguments.check:
            same = not status_table.insert_table(page, text, write=False)
            print(f"{page.name}:", "up to date" if same else "not what ci/status says; decouple status-table")
            code = code if same else CHECK_FAILED
        else:
            changed = status_table.insert_table(page, text)
            print(f"{page.name}:", "table written" if changed else "already up to date")
    return code


def _contract(arguments: argparse.Namespace) -> int:
    """Write the table; with ``--check`` 1 when it is out of date."""
    project = find_project()
    found = items.read(project)
    differed = items.insert(project / items.PAGE, items.table(found), write=not arguments.check)
    if differed and arguments.check:
        print(f"{items.PAGE} is out of date: run `decouple contract-table`")
        return CHECK_FAILED
    print(f"{items.PAGE}: {len(found)} items, {len({test for item in found for test in item.tests})} tests")
    return OK
