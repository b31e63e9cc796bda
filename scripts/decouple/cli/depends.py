"""``decouple depends``: which earlier patches each patch needs, read without a checkout."""

from __future__ import annotations

import argparse

from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.cli.source_word import add_source_option
from decouple.series import check
from decouple.series.dependencies import find_dependencies
from decouple.upstream.named_sources import open_named_source


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    depends = subparsers.add_parser("depends")
    depends.add_argument("release")
    add_source_option(depends)
    depends.set_defaults(run=_run_depends)


def _run_depends(arguments: argparse.Namespace) -> int:
    """Find out and print."""
    project = find_project()
    series = check.load_series(project, arguments.release)
    opened, _ = open_named_source(project, arguments.release, arguments.source, check.list_wanted_paths(series))
    for name, needed in find_dependencies(series, opened.source).items():
        print(f"{name}: {', '.join(needed) or 'nothing'}")
    return OK
