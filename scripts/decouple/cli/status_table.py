"""``decouple status-table``: the tables of ``ci/status`` in README.md and docs/status.md."""

from __future__ import annotations

import argparse
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.release import status


def register(subparsers: Any) -> None:
    """Add the command."""
    table = subparsers.add_parser("status-table")
    table.add_argument("--check", action="store_true", help="only say whether they are up to date")
    table.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the tables; with ``--check`` 1 when one is out of date."""
    project = find_project()
    files = sorted(path for path in (project / "ci" / "status").glob("*.json") if path.stem[:1].isdigit())
    found = {path.stem: status.read(path) for path in files}
    pages = {project / "README.md": status.table(found), project / "docs" / "status.md": status.matrix(found)}
    code = OK
    for page, text in pages.items():
        if arguments.check:
            same = not status.insert_table(page, text, write=False)
            print(f"{page.name}:", "up to date" if same else "not what ci/status says; decouple status-table")
            code = code if same else CHECK_FAILED
        else:
            changed = status.insert_table(page, text)
            print(f"{page.name}:", "table written" if changed else "already up to date")
    return code
