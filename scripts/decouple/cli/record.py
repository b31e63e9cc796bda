"""``decouple record``: write what is proven of a series, without building it, to ``ci/status/<release>.json``; with
``--seconds``, what a build measured to the table that estimates go by."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.cli.request import asked
from decouple.cli.source_word import source_option
from decouple.flows.record import Record, record, record_seconds


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
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record and print; 1 when a patch does not apply to a tree of its release."""
    if arguments.seconds:
        for path, measured in record_seconds(find_project(), arguments.release, arguments.seconds):
            print(f"{path}: {measured} objects")
        return OK
    found = record(asked(Record, arguments))
    count = len(found.applies)
    said = f"{count - len(found.bad)} of {count} patches apply to {' and '.join(found.sources)}"
    print(f"{found.path}: {said}")
    return OK if found.ok else CHECK_FAILED
