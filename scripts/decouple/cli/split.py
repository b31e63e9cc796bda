"""``decouple split``: a torch_cuda wheel as libraries for all Pythons and bindings for one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import OK
from decouple.build.split import split


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("split")
    parser.add_argument("wheel", type=Path, nargs="+", help="a torch_cuda wheel of dist/RELEASE")
    parser.add_argument("--out", type=Path, help="where both halves go (default: split/ beside the wheel)")
    parser.set_defaults(run=_split)


def _split(arguments: argparse.Namespace) -> int:
    for wheel in arguments.wheel:
        halves = split(wheel, arguments.out or wheel.parent / "split")
        for path in (halves.libraries, halves.bindings):
            print(f"{path} ({path.stat().st_size / (1 << 20):.1f} MiB)")
    return OK
