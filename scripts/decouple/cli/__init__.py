"""The command line: parses arguments, calls a room, prints what it returned.

Each module named in ``COMMANDS`` has ``register(subparsers)``; it adds its parsers and sets ``run`` to a function
``(argparse.Namespace) -> int``. A module imports its room inside ``run``, so that a command pays only for what it uses.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from decouple import __version__
from decouple.base.errors import CHECK_FAILED, DecoupleError

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
    """Run one command; returns its exit code (0 ok, 1 the check failed, 2 usage)."""
    arguments = parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()  # here and not when Python ends, where a reader that is gone could not be told from a fault
        return code
    except DecoupleError as error:
        print(f"decouple: {error.what}", file=sys.stderr)
        if error.next_step:
            print(f"  next: {error.next_step}", file=sys.stderr)
        return error.code
    except BrokenPipeError:  # `| head` has seen enough; what is still buffered must not fail when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CHECK_FAILED
    except KeyboardInterrupt:
        print("decouple: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"decouple: {where}{error.strerror or error}", file=sys.stderr)
        return CHECK_FAILED
