"""Parses arguments, calls a flow or a room, prints what it returned.

A module that ``menu`` names has ``register(subparsers)``, which adds its verbs and sets ``run`` of each to a function
``(argparse.Namespace) -> int``. Only the module of the typed verb is loaded.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import sys
from collections.abc import Sequence

from decouple import __version__
from decouple.cli.last_resort import ending
from decouple.cli.menu import VERBS


class _Formatter(argparse.HelpFormatter):
    """As wide as the terminal. argparse imports shutil to ask for that, and asks for each option that is added."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_width())


class _Parser(argparse.ArgumentParser):
    """A parser whose verbs' parsers are of its kind."""

    def __init__(self, **options: object) -> None:  # `Any` would load typing, for every start
        super().__init__(**{"formatter_class": _Formatter, **options})  # type: ignore[arg-type]


@functools.cache
def _width() -> int:
    try:
        columns = int(os.environ.get("COLUMNS", "0")) or os.get_terminal_size(1).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or 80) - 2


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The command line as far as ``words`` need it; None: the whole of it, with every module loaded."""
    top = _Parser(prog="decouple", description="PyTorch with its CUDA code as a standalone backend.")
    top.add_argument("--version", action="version", version=f"decouple {__version__}")
    subparsers = top.add_subparsers(prog="decouple", dest="command", metavar="COMMAND", required=True)
    verb = words[0] if words else ""
    if verb == "--version":
        return top
    if words is not None and verb not in VERBS:  # --help or a mistake: the names are enough
        for name, (_, text) in VERBS.items():
            subparsers.add_parser(name, help=text)
        return top
    for module in dict.fromkeys(module for name, (module, _) in VERBS.items() if words is None or name == verb):
        importlib.import_module(f"decouple.cli.{module}").register(subparsers)
    return top


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of a command line say. argparse takes a list of words in one run only: those after an option
    (`new 2.6 -m TITLE NAME`) belong to the same list, which a command names as the default ``rest``."""
    known = parser(words)
    arguments, left = known.parse_known_args(words)
    if left and ("rest" not in arguments or any(one.startswith("-") for one in left)):
        known.error(f"unrecognized arguments: {' '.join(left)}")
    if left:
        getattr(arguments, arguments.rest).extend(left)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 ok, 1 the check failed, 2 usage; `last_resort` has the others)."""
    words = sys.argv[1:] if argv is None else list(argv)

    def run() -> int:
        arguments = parsed(words)
        code: int = arguments.run(arguments)
        return code

    return ending(run, words, parser)
