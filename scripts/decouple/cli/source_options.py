"""``--tree``, ``--source`` and ``--offline`` of the commands that read upstream's pristine source."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.cli.request import asked
from decouple.cli.source_word import source_option
from decouple.flows.pristine import Pristine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three options."""
    parser.add_argument("--tree", type=Path, metavar="DIR", help="look at this tree instead of fetching the release")
    source_option(parser)
    parser.add_argument("--offline", action="store_true", help="only what the cache has")


def pristine(arguments: argparse.Namespace) -> Pristine:
    """What they ask for, of ``arguments.release``."""
    return asked(Pristine, arguments)
