"""The command line: parses arguments, calls a flow or a room, prints what it returned.

A module of ``MODULES`` has ``register(subparsers)``, which adds its verbs and sets ``run`` of each to a function
``(argparse.Namespace) -> int``. Only the module of the typed verb is loaded; ``--help`` loads them all.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence

from decouple import __version__
from decouple.cli.last_resort import ending

#: Module -> its verbs, in the order of ``--help``: from source to patches, to other releases, to wheels, to backends.
MODULES: dict[str, str] = {
    "fetch": "fetch",
    "apply": "apply status",
    "stack": "push pop",
    "standing": "top series applied unapplied",
    "patches": "new add edit refresh fold rename delete import export show diff header",
    "branch": "branch from-branch",
    "lint": "lint",
    "check": "check",
    "relocate": "relocate",
    "stage2_sources": "stage2-sources",
    "census": "census",
    "range_diff": "range-diff",
    "burn_down": "burn-down",
    "depends": "depends",
    "bisect": "bisect",
    "rebase": "rebase",
    "forecast": "forecast",
    "record": "record",
    "manifest": "manifest",
    "build": "build smoke shell",
    "clean": "clean",
    "explain": "explain",
    "verify": "verify audit",
    "status_table": "status-table",
    "kernels": "kernels",
    "test_cuda": "test-cuda",
    "stage2_symbols": "stage2-symbols",
    "units": "units",
    "index": "index",
    "wheels": "wheels",
    "contract": "contract",
    "contract_table": "contract-table",
    "new_device": "new-device",
    "reuse": "reuse",
}


def parser(modules: Iterable[str] = MODULES) -> argparse.ArgumentParser:
    """The command line, with the verbs of these modules (all of them)."""
    top = argparse.ArgumentParser(prog="decouple", description="PyTorch with its CUDA code as a standalone backend.")
    top.add_argument("--version", action="version", version=f"decouple {__version__}")
    subparsers = top.add_subparsers(prog="decouple", dest="command", metavar="COMMAND", required=True)
    for name in modules:
        importlib.import_module(f"decouple.cli.{name}").register(subparsers)
    return top


def needed(words: Sequence[str]) -> list[str]:
    """The modules that parse ``words``: that of the verb; none for ``--version``; all for ``--help`` and mistakes."""
    first = words[0] if words else ""
    if first == "--version":
        return []
    return [name for name, verbs in MODULES.items() if first in verbs.split()] or list(MODULES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (0 ok, 1 the check failed, 2 usage; `last_resort` has the others)."""
    words = sys.argv[1:] if argv is None else list(argv)

    def run() -> int:
        arguments = parser(needed(words)).parse_args(words)
        code: int = arguments.run(arguments)
        return code

    return ending(run, words)
