"""quilt's verbs that say where the applied tree of a release stands in its series."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import OK
from decouple.base.paths import find_project
from decouple.cli.verbs import verb
from decouple.stack.glance import applied


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    verb(subparsers, "top", _top)
    series = verb(subparsers, "series", _series)
    series.add_argument("-v", "--verbose", action="store_true", help="mark applied patches with +, the top one with =")
    verb(subparsers, "applied", _applied)
    verb(subparsers, "unapplied", _unapplied)


def _top(arguments: argparse.Namespace) -> int:
    if names := applied(find_project(), arguments.words, Path.cwd()):
        print(names[-1])
        return OK
    from decouple.cli.stack_words import opened, patch  # the engine, only where a glance does not tell

    with opened(arguments) as (stack, _):
        print(patch(stack, []))
    return OK


def _series(arguments: argparse.Namespace) -> int:
    from decouple.cli.stack_words import named, open_at
    from decouple.patch import seriesfile

    places, _ = named(arguments)
    if not arguments.verbose:
        print("\n".join(seriesfile.read(places.series).names))
        return OK
    with open_at(places) as stack:
        for name in stack.series.names:
            print("=" if name == stack.top else "+" if name in stack.applied else " ", name)
    return OK


def _applied(arguments: argparse.Namespace) -> int:
    names = applied(find_project(), arguments.words, Path.cwd())
    if names is None:
        from decouple.cli.stack_words import opened

        with opened(arguments) as (stack, _):
            names = list(stack.applied)
    for name in names:
        print(name)
    return OK


def _unapplied(arguments: argparse.Namespace) -> int:
    from decouple.cli.stack_words import opened

    with opened(arguments) as (stack, _):
        for name in stack.unapplied:
            print(name)
    return OK
