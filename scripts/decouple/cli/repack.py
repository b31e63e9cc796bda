"""``decouple repack``: make other wheels of a wheel; nothing is compiled."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import OK, UsageError
from decouple.base.interpreter import parse_python
from decouple.base.paths import find_cache, find_project
from decouple.build import variants
from decouple.build.probe import split_archs
from decouple.build.wheel_pair import pair_wheels
from decouple.build.wheel_split import split_wheel
from decouple.cli import output
from decouple.flows.official_python import find_official_torch
from decouple.flows.thin import thin_wheel
from decouple.prebuilt import core_half, pairing
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release


def register(subparsers: Any) -> None:
    """Add the commands."""
    top = subparsers.add_parser("repack")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    parser = verbs.add_parser("split", help="a torch_cuda wheel as two: libraries for all Pythons, bindings for one")
    parser.add_argument("wheel", type=Path, nargs="+", help="a torch_cuda or torch_hip wheel of dist/RELEASE")
    parser.add_argument("--out", type=Path, help="where both halves go (default: split/ beside the wheel)")
    parser.set_defaults(run=_run_split)

    thinned = verbs.add_parser(
        "thin", help="a torch_cuda wheel for some GPUs out of one for many: a fraction of its size"
    )
    thinned.add_argument("wheel", type=Path, help="a whole torch_cuda or torch_hip wheel for several GPUs")
    thinned.add_argument(
        "--arch",
        action="append",
        required=True,
        help="those that it is to be for, e.g. 9.0, '8.0;8.6' or gfx90a; may be repeated",
    )
    thinned.add_argument("--out", type=Path, help="where it goes (default: beside the wheel)")
    thinned.set_defaults(run=_run_thin)

    paired = verbs.add_parser("pair", help="a core as torch X+cuNNN, which brings torch-cuda with it")
    paired.add_argument("core", type=Path, help="the bare core's wheel")
    paired.add_argument("bindings", type=Path, help="the bindings that `split` made of its torch_cuda wheel")
    paired.add_argument("--out", type=Path, help="where both go (default: beside the bindings)")
    paired.set_defaults(run=_run_pair)

    labelled = verbs.add_parser("variants", help="wheels among which uv chooses by driver and GPU (PEP 825)")
    labelled.add_argument("wheel", type=Path, nargs="+", help="torch_cuda wheels for one core, best what `split` wrote")
    labelled.add_argument("--out", type=Path, help="where they go (default: variants/ beside the first)")
    labelled.set_defaults(run=_run_variants)
    _add_core_half(verbs)


def _run_split(arguments: argparse.Namespace) -> int:
    for wheel in arguments.wheel:
        halves = split_wheel(wheel, arguments.out or wheel.parent / "split")
        _print_wheels(halves.libraries, halves.bindings)
    return OK


def _run_thin(arguments: argparse.Namespace) -> int:
    archs = split_archs(";".join(arguments.arch))
    _print_wheels(thin_wheel(arguments.wheel, archs, arguments.out or arguments.wheel.parent))
    return OK


def _run_pair(arguments: argparse.Namespace) -> int:
    made = pair_wheels(arguments.core, arguments.bindings, arguments.out or arguments.bindings.parent)
    _print_wheels(made.core, made.bindings)
    return OK


def _run_variants(arguments: argparse.Namespace) -> int:
    _print_wheels(*variants.make_variants(arguments.wheel, arguments.out or arguments.wheel[0].parent / "variants"))
    return OK


def _print_wheels(*wheels: Path) -> None:
    for path in wheels:
        print(f"{path} ({path.stat().st_size / (1 << 20):.1f} MiB)")


def _add_core_half(subparsers: Any) -> None:
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
        type=parse_python,
        help="one that has that wheel installed: FOLDER becomes a virtual environment of it (default: the wheel is "
        "fetched, and FOLDER is laid out as site-packages)",
    )
    command.add_argument("--backend", type=Path, metavar="WHEEL", help="with --python: torch_cuda, put on it")
    command.set_defaults(run=_run_core_half)


def _run_core_half(arguments: argparse.Namespace) -> int:
    if arguments.backend and not arguments.python:
        raise UsageError("--backend: goes into a virtual environment", next_step="add --python")
    if arguments.python:
        version = load_release(find_project(), arguments.release).version
        official, _ = find_official_torch(arguments.python, version, "--python")
        python = core_half.make_environment(official, arguments.folder, arguments.backend)
        print(f"{python}: torch {version} without kernels")
        return OK
    pair, progress = pairing.load_pair(arguments.release), output.make_progress()
    received = core_half.make_core_half(pair, arguments.folder, Downloader(find_cache(), progress=progress), progress)
    print(f"{arguments.folder}: {pair.wheel.name} without kernels, {received / (1 << 20):.0f} MiB fetched")
    return OK
