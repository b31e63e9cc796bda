"""``decouple repack core-half``: the CPU half of the official wheel, as a core to try torch_cuda on."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import OK, UsageError
from decouple.base.paths import find_cache
from decouple.cli import output
from decouple.prebuilt import core_half, pairing
from decouple.upstream.download import Downloader


def register(subparsers: Any) -> None:
    """Add ``core-half``."""
    command = subparsers.add_parser(
        "core-half",
        help="the CPU half of the official wheel, as a core to try torch_cuda on",
        description="The official wheel of RELEASE without its kernels, in FOLDER: its bytes, with CUDA's taken away. "
        "It is a test bed for bindings, and no core for anybody.",
    )
    command.add_argument("release")
    command.add_argument("folder", type=Path)
    command.add_argument(
        "--python",
        type=Path,
        help="one that has that wheel installed: FOLDER becomes a virtual environment of it (default: the wheel is "
        "fetched, and FOLDER is laid out as site-packages)",
    )
    command.add_argument("--backend", type=Path, metavar="WHEEL", help="with --python: torch_cuda, put on it")
    command.set_defaults(run=_run_core_half)


def _run_core_half(arguments: argparse.Namespace) -> int:
    if arguments.backend and not arguments.python:
        raise UsageError("--backend: goes into a virtual environment", next_step="add --python")
    if arguments.python:
        python = core_half.make_environment(arguments.python, arguments.folder, arguments.backend)
        print(f"{python}: torch {arguments.release} without kernels")
        return OK
    pair, progress = pairing.load_pair(arguments.release), output.make_progress()
    received = core_half.make_core_half(pair, arguments.folder, Downloader(find_cache(), progress=progress), progress)
    print(f"{arguments.folder}: {pair.wheel.name} without kernels, {received / (1 << 20):.0f} MiB fetched")
    return OK
