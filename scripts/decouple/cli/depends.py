"""``decouple depends``: which earlier patches each patch needs."""

from __future__ import annotations

import argparse

from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.cli.source_word import source_option
from decouple.series import check
from decouple.series.depends import dependencies
from decouple.upstream.source_word import open_named


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    depends = subparsers.add_parser("depends")
    depends.add_argument("release")
    source_option(depends)
    depends.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Find out and print."""
    project = find_project()
    series = check.load(project, arguments.release)
    opened, _ = open_named(project, arguments.release, arguments.source, check.wanted(series))
    for name, needed in dependencies(series, opened.source).items():
        print(f"{name}: {', '.join(needed) or 'nothing'}")
    return OK
