"""``decouple status-table``: tables in the documents, of what was recorded."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import replace_sections
from decouple.base.paths import find_project
from decouple.release import carried, status, status_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    table = subparsers.add_parser("status-table")
    table.add_argument("--check", action="store_true", help="only say whether they are up to date")
    table.set_defaults(run=_run_status_table)


def _run_status_table(arguments: argparse.Namespace) -> int:
    """Write the tables; with ``--check`` 1 when one is out of date."""
    project = find_project()
    known = {path.stem: status.read_status(path) for path in sorted((project / "ci" / "status").glob("*.json"))}
    records = {
        release: record for release, record in known.items() if record.series or not carried.describe_carried(record)
    }
    pages = {
        project / "README.md": {"status": status_table.summarize_releases(records)},
        project / "docs" / "proofs.md": {
            "proofs": status_table.tabulate_proofs(records),
            "patches": status_table.render_patch_matrix(records),
            "suites": status_table.render_suites(records),
        },
        project / "docs" / "rebase.md": {"carried": status_table.tabulate_carried(known)},
    }
    code = OK
    for page, tables in pages.items():
        if arguments.check:
            same = not replace_sections(page, tables, write=False)
            print(f"{page.name}:", "up to date" if same else "not what ci/status says; decouple status-table")
            code = code if same else CHECK_FAILED
        else:
            changed = replace_sections(page, tables)
            print(f"{page.name}:", "written" if changed else "already up to date")
    return code
