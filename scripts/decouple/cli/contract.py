"""``decouple contract``: check backends by the contract, write what proves it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request, refuse_unread
from decouple.device import items, runs
from decouple.flows.contract import ContractRequest, check_contract


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "contract",
        description="Install the core wheel of dist/<release>/ into a virtual environment where it was built (or take "
        "the distribution's own build of that release: --core stock), compile the backend against it, and run the "
        "contract tests.",
    )
    command.add_argument("release", metavar="RELEASE", nargs="?")
    command.add_argument("--device", metavar="NAME", help="third_device/torch_NAME (default: the template, as sim)")
    command.add_argument("--core", choices=["built", "stock"], default="built", help="the PyTorch (default: built)")
    command.add_argument("--beside-cuda", action="store_true", help="with the torch_cuda wheel installed, too")
    command.add_argument("--upstream", action="store_true", help="upstream's own suites of the applied tree, too")
    command.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto", help="where the wheels run")
    command.add_argument("--jobs", type=int, help="compilers at once (default: what cores and memory allow)")
    command.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    command.add_argument("--pytest", default="", metavar="ARGUMENTS", help='for pytest, e.g. --pytest="-k beside"')
    table = command.add_argument_group("the tables of docs/backends.md", "Nothing is built or run.")
    table.add_argument("--table", action="store_true", help="write what proves each item")
    table.add_argument("--check", action="store_true", help="only say whether they are up to date")
    table.add_argument(
        "--record",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="first keep what the whole contract found, from the folder of its --contract-report",
    )
    command.set_defaults(run=run_contract, parser=command)


def run_contract(arguments: argparse.Namespace) -> int:
    """Install, build, check; 1 when a test fails, 2 when a wheel is missing."""
    if arguments.table or arguments.check or arguments.record:
        return _write_tables(arguments)
    if arguments.release is None:
        raise UsageError("contract: of which release?", next_step="name it, or --table")
    try:
        words = shlex.split(arguments.pytest)
    except ValueError as error:
        raise UsageError(f"--pytest: {arguments.pytest}: {error}", next_step="close the quotation in it") from None
    request = make_request(ContractRequest, arguments, pytest=words)
    result = check_contract(request, output.make_listener())
    print(f"report: {result.report}")
    return OK if result.ok else CHECK_FAILED


def _write_tables(arguments: argparse.Namespace) -> int:
    """Write the tables of items and of runs; with ``--check`` 1 when one is outdated."""
    read = {"table", "check", "record"}
    refuse_unread(arguments, read, "nothing is built or run for the tables", "leave it out, or do without the tables")
    project = find_project()
    for folder in arguments.record:
        print(f"{runs.record_run(project, folder).relative_to(project)}: kept")
    entries = items.read_items(project)
    differed = [
        items.insert_table(project / items.PAGE, items.format_table(entries), write=not arguments.check),
        runs.insert_table(project, write=not arguments.check),
    ]
    if arguments.check and any(differed):
        print(f"{items.PAGE} is out of date: run `decouple contract --table`")
        return CHECK_FAILED
    print(f"{items.PAGE}: {len(entries)} items, {len({test for item in entries for test in item.tests})} tests")
    return OK
