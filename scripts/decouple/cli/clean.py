"""``decouple clean``: delete what building left."""

from __future__ import annotations

import argparse
from typing import Any

from decouple.base.errors import OK
from decouple.cli import output
from decouple.cli.request import asked
from decouple.flows.clean import Clean
from decouple.flows.clean import clean as delete


def register(subparsers: Any) -> None:
    """Add the command."""
    clean = subparsers.add_parser("clean")
    clean.add_argument("release")
    clean.add_argument("--stage", type=int, choices=[1, 2], help="only this stage's build directory")
    clean.add_argument("--rootfs", action="store_true", help="the Debian root too")
    clean.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Delete; says what."""
    request = asked(Clean, arguments)
    delete(request, output.listener())
    return OK
