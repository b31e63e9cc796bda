"""``decouple contract``: the contract of backends on the wheels that were built."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.contract import ContractRequest, check_contract


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "contract",
        description="Install the core wheel of dist/<release>/ into a virtual environment where it was built (or take "
        "the distribution's own build of that release: --core stock), compile the backend against it, and run the "
        "contract tests.",
    )
    command.add_argument("release", metavar="RELEASE")
    command.add_argument("--device", default="sim", metavar="NAME", help="third_device/torch_NAME (default: sim)")
    command.add_argument("--core", choices=["built", "stock"], default="built", help="the PyTorch (default: built)")
    command.add_argument("--beside-cuda", action="store_true", help="with the torch_cuda wheel installed, too")
    command.add_argument("--upstream", action="store_true", help="upstream's own suites of the applied tree, too")
    command.add_argument("--env", choices=["auto", "host", "rootfs"], default="auto", help="where the wheels run")
    command.add_argument("--jobs", type=int, help="compilers at once (default: what cores and memory allow)")
    command.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    command.add_argument("--pytest", default="", metavar="ARGUMENTS", help='for pytest, e.g. --pytest="-k beside"')
    command.set_defaults(run=run_contract)


def run_contract(arguments: argparse.Namespace) -> int:
    """Install, build, check; 1 when a test fails, 2 when a wheel is missing."""
    request = make_request(ContractRequest, arguments, pytest=shlex.split(arguments.pytest))
    result = check_contract(request, output.make_listener())
    print(f"report: {result.report}")
    return OK if result.ok else CHECK_FAILED
