"""quilt's verbs that say where the applied tree of a release stands in its series."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.cli.verbs import add_verb
from decouple.stack.state_file import read_applied_names


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    add_verb(subparsers, "top", _run_top)
    series = add_verb(subparsers, "series", _run_series)
    series.add_argument("-v", "--verbose", action="store_true", help="mark applied patches with +, the top one with =")
    add_verb(subparsers, "applied", _run_applied)
    add_verb(subparsers, "unapplied", _run_unapplied)


def _run_top(arguments: argparse.Namespace) -> int:
    if names := read_applied_names(find_project(), arguments.words, Path.cwd()):
        print(names[-1])
        return OK
    from decouple.cli.stack_words import find_patch, open_stack  # the engine, only where a glance does not tell

    with open_stack(arguments) as (stack, _):
        print(find_patch(stack, []))
    return OK


def _run_series(arguments: argparse.Namespace) -> int:
    from decouple.cli.stack_words import open_stack_at, parse_words
    from decouple.patch import series_file

    places, _ = parse_words(arguments)
    if not arguments.verbose:
        print("\n".join(series_file.read_series(places.series).names))
        return OK
    with open_stack_at(places) as stack:
        for name in stack.series.names:
            print("=" if name == stack.top else "+" if name in stack.applied else " ", name)
    return OK


def _run_applied(arguments: argparse.Namespace) -> int:
    names = read_applied_names(find_project(), arguments.words, Path.cwd())
    if names is None:
        from decouple.cli.stack_words import open_stack

        with open_stack(arguments) as (stack, _):
            names = list(stack.applied)
    for name in names:
        print(name)
    return OK


def _run_unapplied(arguments: argparse.Namespace) -> int:
    from decouple.cli.stack_words import open_stack

    with open_stack(arguments) as (stack, _):
        for name in stack.unapplied:
            print(name)
    return OK
