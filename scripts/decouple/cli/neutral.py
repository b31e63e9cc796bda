"""``decouple neutral FILE…``: rewrite ``torch.cuda`` programs to name no device."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli.request import make_request
from decouple.flows.neutral import NeutralRequest, rewrite_programs


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "neutral",
        description="Show as a diff how a program written for torch.cuda is said for any device: torch.accelerator. "
        "What cannot be rewritten is listed on standard error with its line and the reason; then the exit code is 1.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="a program or module in Python")
    parser.add_argument(
        "--device",
        default="",
        metavar="NAME",
        help="say torch.NAME where torch.accelerator has nothing (default: torch.get_device_module())",
    )
    parser.add_argument("--write", action="store_true", help="change the files, too")
    parser.set_defaults(run=run_neutral)


def run_neutral(arguments: argparse.Namespace) -> int:
    """Print the diffs and what is left; 1 if something is."""
    done = rewrite_programs(make_request(NeutralRequest, arguments))
    for file in done:
        sys.stdout.buffer.write(file.diff.encode("utf-8", "surrogateescape"))
    left = [(file.path, left) for file in done for left in file.left]
    for path, line in left:
        print(f"{path}:{line.line}: left as it is: {line.text}\n    {line.reason}", file=sys.stderr)
    print(f"{sum(file.changes for file in done)} places rewritten, {len(left)} lines left", file=sys.stderr)
    return CHECK_FAILED if left else OK
