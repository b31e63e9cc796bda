"""``decouple split | pair``: the wheels of a build in the form in which they are published."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import OK
from decouple.build.paired import pair
from decouple.build.split import split


def register(subparsers: Any) -> None:
    """Add the commands."""
    parser = subparsers.add_parser("split")
    parser.add_argument("wheel", type=Path, nargs="+", help="a torch_cuda wheel of dist/RELEASE")
    parser.add_argument("--out", type=Path, help="where both halves go (default: split/ beside the wheel)")
    parser.set_defaults(run=_split)

    paired = subparsers.add_parser("pair")
    paired.add_argument("core", type=Path, help="the bare core's wheel")
    paired.add_argument("bindings", type=Path, help="the bindings that `split` made of its torch_cuda wheel")
    paired.add_argument("--out", type=Path, help="where both go (default: beside the bindings)")
    paired.set_defaults(run=_pair)


def _split(arguments: argparse.Namespace) -> int:
    for wheel in arguments.wheel:
        halves = split(wheel, arguments.out or wheel.parent / "split")
        _say(halves.libraries, halves.bindings)
    return OK


def _pair(arguments: argparse.Namespace) -> int:
    made = pair(arguments.core, arguments.bindings, arguments.out or arguments.bindings.parent)
    _say(made.core, made.bindings)
    return OK


def _say(*wheels: Path) -> None:
    for path in wheels:
        print(f"{path} ({path.stat().st_size / (1 << 20):.1f} MiB)")
