"""How a verb on a series is declared: its release may be left out."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from decouple.cli.menu import VERBS


def add_verb(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    arguments: str = "",
) -> argparse.ArgumentParser:
    """Add a verb that takes a release and ``arguments``."""
    text = VERBS[name][1]
    parser = subparsers.add_parser(name, description=text[0].upper() + text[1:] + ".")
    metavar = f"[RELEASE] {arguments}".strip()
    parser.add_argument("words", nargs="*", metavar=metavar, help="the release, e.g. 2.6, then what the verb acts on")
    parser.set_defaults(run=run, rest="words")
    return parser
