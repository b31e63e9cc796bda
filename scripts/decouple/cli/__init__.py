"""The command line: parses arguments, calls a room, prints what it returned.

Each module named in ``COMMANDS`` has ``register(subparsers)``; it adds its parsers and sets ``run`` to a function
``(argparse.Namespace) -> int``. A module imports its room inside ``run``, so that a command pays only for what it uses.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from decouple import __version__
from decouple.cli.last_resort import ending

#: In the order of ``--help``: from source to patches, to other releases, to wheels, to backends.
COMMANDS: tuple[str, ...] = (
    "fetch",
    "stack",
    "lint",
    "check",
    "relocate",
    "census",
    "compare",
    "rebase",
    "forecast",
    "record",
    "manifest",
    "build",
    "verify",
    "kernels",
    "stage2_symbols",
    "units",
    "index",
    "wheels",
    "contract",
    "device",
    "reuse",
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="decouple", description="PyTorch with its CUDA code as a standalone backend.")
    top.add_argument("--version", action="version", version=f"decouple {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"decouple.cli.{name}").register(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 ok, 1 the check failed, 2 usage; `last_resort` has the others)."""
    words = sys.argv[1:] if argv is None else list(argv)

    def run() -> int:
        arguments = parser().parse_args(words)
        code: int = arguments.run(arguments)
        return code

    return ending(run, words)
