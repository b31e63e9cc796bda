"""``decouple upstream-watch``: the series on upstream's main of today, and what that changed."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.upstream_watch import WatchRequest, watch_upstream


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "upstream-watch",
        description="Carry the series to upstream's main of today, without writing it: a verdict for each patch, what "
        "in the core still needs CUDA, CUDA files that no rule places. Exit code 1 when that is other than in --state.",
    )
    parser.add_argument("--source", metavar="PATH", help="judge this: a folder, an archive or REPOSITORY@REVISION")
    parser.add_argument("--url", help="the repository to fetch from (default: upstream's)")
    parser.add_argument("--ref", help="what to fetch of it: a branch, a tag or a commit (default: main)")
    parser.add_argument(
        "--from-source", metavar="SOURCE", help="where the source of the series' own release comes from"
    )
    parser.add_argument("--state", type=Path, metavar="FILE", help="what the last run came to; it is written anew")
    parser.add_argument("--also", type=Path, metavar="FILE", help="words, macros and rules of this tree alone (TOML)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the report, as Markdown")
    parser.set_defaults(run=run_upstream_watch)


def run_upstream_watch(arguments: argparse.Namespace) -> int:
    """Judge and print; 1 when something changed."""
    result = watch_upstream(make_request(WatchRequest, arguments), output.make_listener())
    if arguments.report:
        write_atomically(arguments.report, result.report)
        print("\n".join(result.changes) or "nothing changed")
    else:
        print(result.report, end="")
    return CHECK_FAILED if result.changes else OK
