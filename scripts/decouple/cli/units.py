"""``decouple stages units``: what stage 1's translation units open; every file of CUDA among it is named."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.units import UnitsRequest, UnitsRun, check_units


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``units``."""
    command = subparsers.add_parser(
        "units",
        help="what stage 1's translation units open: no file of CUDA may be among it",
        description="For a unit that is compiled, the build's record says what the compiler opened; any other is "
        "preprocessed. Needs a configured stage 1 whose generated sources exist (decouple build RELEASE --stage 1).",
    )
    command.add_argument("release")
    command.add_argument("--count", type=int, metavar="N", help="an even slice of N units, touched ones first (all)")
    command.add_argument("--preprocess", action="store_true", help="preprocess all, whatever the build recorded")
    command.add_argument("--opened", type=Path, metavar="FILE", help="write the tree's files that were opened")
    command.add_argument("--env", choices=("auto", "host", "rootfs"), default="auto", help="whose compiler")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="compilers at once (1)")
    command.add_argument("--tree", type=Path, help="the applied tree (build/<release>/src)")
    command.set_defaults(run=run_units)


def run_units(arguments: argparse.Namespace) -> int:
    """Check and print; 1 if a unit opens a file of CUDA or cannot be preprocessed, there is none, or the tree differs.

    The tree differs when it is not the series: a patch missing or edited, a commit or an uncommitted edit besides.
    """
    request = make_request(UnitsRequest, arguments)
    result = check_units(request, output.make_listener())
    for line in (*result.differences, *result.report.findings):
        print(line)
    if arguments.opened:
        write_atomically(arguments.opened, "".join(f"{path}\n" for path in result.opened))
        print(f"{arguments.opened}: {len(result.opened)} files of the tree")
    _print_result(result)
    return OK if result.ok else CHECK_FAILED


def _print_result(result: UnitsRun) -> None:
    """Print where the evidence comes from, and the verdict."""
    report = result.report
    missing = len(report.without_evidence)
    outdated = len(result.record.outdated) if result.record else 0
    print(
        f"evidence: {report.recorded} units from the build's record, {report.preprocessed} preprocessed"
        f"{f' ({outdated} objects are out of date)' if outdated else ''}, {missing} without any"
    )
    coupled = len(report.findings) - missing
    verdict = "ok" if result.ok else "FAILED"
    print(f"{verdict}: {report.units} units opened {len(report.opened)} files; {coupled} units open a file of CUDA")
