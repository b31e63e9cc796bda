"""How a verb on a series is declared: its release may be left out."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_verb(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    arguments: str = "",
) -> argparse.ArgumentParser:
    """Add a verb that takes a release and ``arguments``."""
    parser = subparsers.add_parser(name)
    metavar = f"[RELEASE] {arguments}".strip()
    text = "the release, for example 2.6 (default: the one of the current folder, else the only one)"
    if arguments:
        text += "; then what the verb acts on"
    parser.add_argument("words", nargs="*", metavar=metavar, help=text)
    parser.set_defaults(run=run, rest="words")
    return parser
