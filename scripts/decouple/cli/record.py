"""``decouple record``: write what is proven to ``ci/status/<release>.json``.

Nothing is built. With ``--seconds`` it writes what a build measured to the table that estimates go by.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request, refuse_unread
from decouple.cli.source_word import add_source_option
from decouple.flows.record import RecordRequest, record_seconds, record_series
from decouple.flows.record_carried import (
    CarriedTrial,
    HeaderCompile,
    WheelRequest,
    record_exact,
    record_headers,
    record_trial,
)
from decouple.release import carried, status

_FETCHED = ""
"""What ``--headers`` stands for without a folder."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("record")
    parser.add_argument("release")
    parser.add_argument("--census", type=Path, metavar="FILE", help="what `census --json` wrote")
    add_source_option(parser)
    parser.add_argument("--offline", action="store_true", help="of a whole series: use only what is in the cache")
    parser.add_argument(
        "--seconds",
        metavar="KIND",
        help="instead: put the seconds per object that this checkout's builds took in an environment of KIND "
        "(portable, rootfs) into the tables that estimates and shards go by",
    )
    only = parser.add_argument_group(
        "a release without a series of its own",
        "What becomes of the nearest series on the text of the official wheel, or:",
    )
    only.add_argument("--trial", metavar="NAME=FOLDER", help="on the tree in FOLDER; NAME says how that was made")
    only.add_argument(
        "--headers",
        nargs="?",
        const=_FETCHED,
        metavar="FOLDER",
        help="compile stage 2's own units against the official wheel's headers, and those of CUDA below FOLDER "
        "(without one: read by range out of NVIDIA's wheels that the release names)",
    )
    only.add_argument("--compiler", metavar="COMMAND", help="with --headers: what compiles (g++)")
    only.add_argument("--from-source", metavar="SOURCE", help="where the source of the series' own release comes from")
    parser.set_defaults(run=run_record, parser=parser)


def run_record(arguments: argparse.Namespace) -> int:
    """Record and print; 1 when a patch does not apply to a tree of its release."""
    if arguments.seconds:
        refuse_unread(arguments, {"release", "seconds"}, "--seconds reads this checkout's builds alone", "leave it out")
        for path, measured in record_seconds(find_project(), arguments.release, arguments.seconds):
            print(f"{path}: {measured} objects")
        return OK
    if arguments.release not in Checkout(find_project()).list_releases():
        return _record_carried(arguments)
    why = f"{arguments.release} has a series of its own"
    refuse_unread(arguments, {"release", "census", "source", "offline"}, why, "leave it out, or name another release")
    result = record_series(make_request(RecordRequest, arguments))
    count = len(result.applies)
    summary = f"{count - len(result.bad)} of {count} patches apply to {' and '.join(result.sources)}"
    print(f"{result.path}: {summary}")
    return OK if result.ok else CHECK_FAILED


def _record_carried(arguments: argparse.Namespace) -> int:
    """Record one of three and print what is known; return 1 when a patch stopped."""
    stopped = False
    way = next((name for name in ("trial", "headers") if getattr(arguments, name) is not None), "")
    own = {"trial": {"trial", "from_source"}, "headers": {"headers", "compiler"}, "": {"from_source"}}[way]
    why = f"nothing that {f'--{way}' if way else f'the record of {arguments.release}, which has no series,'} reads"
    refuse_unread(arguments, {"release", *own}, why, "leave it out")
    if way == "trial":
        name, _, folder = arguments.trial.partition("=")
        if not (name and folder):
            raise UsageError(f"--trial {arguments.trial}", next_step="write it as NAME=FOLDER")
        request = make_request(CarriedTrial, arguments, name=name, tree=Path(folder))
        stopped = bool(record_trial(request, output.make_listener()).stops)
    elif way == "headers":
        cuda = Path(arguments.headers) if arguments.headers else None
        record_headers(make_request(HeaderCompile, arguments, cuda=cuda), output.make_listener())
    else:
        exact = record_exact(make_request(WheelRequest, arguments), output.make_listener())
        stopped = bool(exact.stops)
    path = status.locate_status(find_project(), arguments.release)
    known = status.read_status(path)
    print(f"{path}:")
    print("\n".join(f"  {what}: {said}" for what, said in carried.describe_carried(known).items()))
    print("".join(f"  refused: {line}\n" for line in carried.list_refused({arguments.release: known})), end="")
    return CHECK_FAILED if stopped else OK
