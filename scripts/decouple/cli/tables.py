"""``decouple status-table | contract-table``: tables in the documents, of what was recorded and what is tested."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import replace_sections
from decouple.base.paths import find_project
from decouple.device import items, runs
from decouple.release import status, status_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    for name, run, what in (
        ("status-table", _run_status_table, "they are"),
        ("contract-table", _run_contract_table, "the page is"),
    ):
        table = subparsers.add_parser(name)
        table.add_argument("--check", action="store_true", help=f"only say whether {what} up to date")
        table.set_defaults(run=run)
        if name == "contract-table":
            table.add_argument(
                "--record",
                metavar="FOLDER",
                type=Path,
                action="append",
                default=[],
                help="first keep what the whole contract found, from the folder of its --contract-report",
            )


def _run_status_table(arguments: argparse.Namespace) -> int:
    """Write the tables; with ``--check`` 1 when one is out of date."""
    project = find_project()
    known = {path.stem: status.read_status(path) for path in sorted((project / "ci" / "status").glob("*.json"))}
    records = {release: one for release, one in known.items() if one.series or not status_table.describe_carried(one)}
    pages = {
        project / "README.md": {"status": status_table.summarize(records)},
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


def _run_contract_table(arguments: argparse.Namespace) -> int:
    """Write the tables of items and of runs; with ``--check`` 1 when one is out of date."""
    project = find_project()
    for folder in arguments.record:
        print(f"{runs.record_run(project, folder).relative_to(project)}: kept")
    entries = items.read_items(project)
    differed = {
        items.PAGE: items.insert_table(project / items.PAGE, items.format_table(entries), write=not arguments.check),
        runs.PAGE: runs.insert_table(project, write=not arguments.check),
    }
    if arguments.check and any(differed.values()):
        for page in (page for page, differs in differed.items() if differs):
            print(f"{page} is out of date: run `decouple contract-table`")
        return CHECK_FAILED
    print(f"{items.PAGE}: {len(entries)} items, {len({test for item in entries for test in item.tests})} tests")
    return OK
