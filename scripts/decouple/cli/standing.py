"""``decouple series``: list patches, and where the applied tree stands in them."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.cli.verbs import add_verb
from decouple.stack.state_file import read_applied_names


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``series``."""
    series = add_verb(subparsers, "series", _run_series)
    which = series.add_mutually_exclusive_group()
    which.add_argument("-v", "--verbose", action="store_true", help="mark applied patches with +, the top one with =")
    which.add_argument("--applied", action="store_true", help="those that are applied")
    which.add_argument("--unapplied", action="store_true", help="those that are not")
    which.add_argument("--top", action="store_true", help="the topmost applied one")


def _run_series(arguments: argparse.Namespace) -> int:
    if arguments.top:
        return _print_top(arguments)
    if arguments.applied:
        return _print_applied(arguments)
    from decouple.cli.stack_words import open_stack_at, parse_words
    from decouple.patch import series_file

    places, _ = parse_words(arguments)
    if not arguments.verbose and not arguments.unapplied:
        print("\n".join(series_file.read_series(places.series).names))
        return OK
    with open_stack_at(places) as stack:
        for name in stack.unapplied if arguments.unapplied else stack.series.names:
            mark = "=" if name == stack.top else "+" if name in stack.applied else " "
            print(f"{mark} {name}" if arguments.verbose else name)
    return OK


def _print_top(arguments: argparse.Namespace) -> int:
    if names := read_applied_names(find_project(), arguments.words, Path.cwd()):
        print(names[-1])
        return OK
    from decouple.cli.stack_words import find_patch, open_stack  # the engine, only where a glance does not tell

    with open_stack(arguments) as (stack, _):
        print(find_patch(stack, []))
    return OK


def _print_applied(arguments: argparse.Namespace) -> int:
    names = read_applied_names(find_project(), arguments.words, Path.cwd())
    if names is None:
        from decouple.cli.stack_words import open_stack

        with open_stack(arguments) as (stack, _):
            names = list(stack.applied)
    for name in names:
        print(name)
    return OK
