"""``decouple record``: write what is proven of a series, without building it, to ``ci/status/<release>.json``; with
``--seconds``, what a build measured to the table that estimates go by."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.checkout import Checkout
from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import asked
from decouple.cli.source_word import source_option
from decouple.flows.record import Record, record, record_seconds
from decouple.flows.record_carried import (
    CarriedTrial,
    HeaderCompile,
    OnWheel,
    record_exact,
    record_headers,
    record_trial,
)
from decouple.release import status, status_table


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("record")
    parser.add_argument("release")
    parser.add_argument("--census", type=Path, metavar="FILE", help="what `census --json` wrote")
    source_option(parser)
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.add_argument(
        "--seconds",
        metavar="KIND",
        help="instead: put the seconds per object that this checkout's builds took in an environment of KIND "
        "(portable) into the tables that estimates and shards go by",
    )
    only = parser.add_argument_group(
        "a release without a series of its own",
        "What becomes of the nearest series on the text of the official wheel, or:",
    )
    only.add_argument("--trial", metavar="NAME=FOLDER", help="on the tree in FOLDER; NAME says how that was made")
    only.add_argument(
        "--headers",
        type=Path,
        metavar="FOLDER",
        help="compile stage 2's own units against the official wheel's headers, and those of CUDA below FOLDER",
    )
    only.add_argument("--compiler", metavar="COMMAND", help="with --headers: what compiles (g++)")
    only.add_argument("--from-source", metavar="SOURCE", help="where the source of the series' own release comes from")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record and print; 1 when a patch does not apply to a tree of its release."""
    if arguments.seconds:
        for path, measured in record_seconds(find_project(), arguments.release, arguments.seconds):
            print(f"{path}: {measured} objects")
        return OK
    if arguments.release not in Checkout(find_project()).releases():
        return _record_carried(arguments)
    found = record(asked(Record, arguments))
    count = len(found.applies)
    said = f"{count - len(found.bad)} of {count} patches apply to {' and '.join(found.sources)}"
    print(f"{found.path}: {said}")
    return OK if found.ok else CHECK_FAILED


def _record_carried(arguments: argparse.Namespace) -> int:
    """Record one of three and print what is known now; 1 when a patch stopped."""
    if arguments.trial:
        name, _, folder = arguments.trial.partition("=")
        if not (name and folder):
            raise UsageError(f"--trial {arguments.trial}", next_step="write it as NAME=FOLDER")
        record_trial(asked(CarriedTrial, arguments, name=name, tree=Path(folder)), output.listener())
    elif arguments.headers:
        record_headers(asked(HeaderCompile, arguments, cuda=arguments.headers), output.listener())
    else:
        record_exact(asked(OnWheel, arguments), output.listener())
    path = status.path_of(find_project(), arguments.release)
    known = status.read(path)
    print(f"{path}:")
    print("\n".join(f"  {what}: {said}" for what, said in status_table.describe_carried(known).items()))
    return CHECK_FAILED if any(one.stops for one in known.trials.values()) else OK
