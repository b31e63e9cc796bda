"""``decouple parity``: the table of a torch against the official wheel."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.cli import output
from decouple.cli.request import asked
from decouple.flows import parity as flow
from decouple.verify.whole.compared import JudgedSection, WholeTable


def register(subparsers: Any) -> None:
    """Add the command."""
    parity = subparsers.add_parser("parity")
    parity.add_argument("release")
    parity.add_argument(
        "--against",
        metavar="pypi|PYTHON",
        default=flow.PYPI,
        help="the official wheel of the release, installed in the cache; or a Python that has it",
    )
    parity.add_argument(
        "--wheels", type=Path, metavar="DIR", help="with pypi: take the official wheel and what it requires from here"
    )
    parity.add_argument(
        "--python",
        metavar="PYTHON|monolith",
        help="the torch that is compared (the wheels in dist/RELEASE); monolith: the Debian root's CUDA build",
    )
    parity.add_argument("--env", choices=["auto", "host", "rootfs", "portable"], default="auto")
    parity.add_argument("--kernels", choices=["compiled", "official"], default="compiled")
    parity.add_argument("--jobs", type=int, metavar="N", help="torches asked at once, 1 or 2")
    parity.add_argument("--json", type=Path, metavar="FILE", help="every name of every section")
    parity.add_argument("--all", action="store_true", help="every unexplained name, not the first five of each kind")
    parity.set_defaults(run=_parity)


def _parity(arguments: argparse.Namespace) -> int:
    found = flow.parity(asked(flow.WholeParity, arguments), output.listener())
    if arguments.json:
        document = {**msgspec.to_builtins(found), "unexplained": found.unexplained, "ok": found.ok}
        write_atomically(arguments.json, json.dumps(document, indent=1) + "\n")
    return print_table(found, None if arguments.all else 5)


def print_table(found: WholeTable, limit: int | None = None) -> int:
    """A row for each section, its reasons and what has none (``limit`` of each kind); returns the exit code."""
    print(f"{'':<34}{'equal':>9}{'missing':>9}{'extra':>9}{'different':>11}{'unexplained':>13}")
    for one in found.sections:
        it = one.compared
        counts = f"{it.equal:>9}{len(it.missing):>9}{len(it.extra):>9}{len(it.different):>11}{len(one.unexplained):>13}"
        print(f"{it.section:<34}{counts}")
    reasons = [(one.compared.section, given) for one in found.sections for given in one.reasons]
    if reasons:
        print("\nreasons")
    for section, given in reasons:
        print(f"  {section}, {len(given.names)}: {given.why}")
    for one in found.sections:
        _print_left(one, limit)
    for line in found.unused:
        print(f"out of date in reasons.toml ({found.side}): {line}")
    print(f"verdict ({found.side}):", "ok" if found.ok else f"FAILED: {found.unexplained} unexplained")
    return OK if found.ok else CHECK_FAILED


def _print_left(one: JudgedSection, limit: int | None) -> None:
    """What of a section has no reason: missing names, and different ones with both sides."""
    left = set(one.unexplained)
    lines = [
        f"differs: {each.name}: {_short(each.ours)}, theirs {_short(each.theirs)}"
        for each in one.compared.different
        if each.name in left
    ]
    _print_some(one.compared.section, _gathered([name for name in one.compared.missing if name in left]), limit)
    _print_some(one.compared.section, lines, limit)


def _gathered(names: Sequence[str]) -> list[str]:
    """Missing names, those in a module or class that is missing itself only counted."""
    inner: dict[str, int] = {}
    for name in sorted(names):
        parts = name.split(".")
        above = next((head for end in range(1, len(parts)) if (head := ".".join(parts[:end])) in inner), None)
        inner[above or name] = inner[above] + 1 if above else 0
    return [f"missing: {name}" + (f", with {count} names in it" if count else "") for name, count in inner.items()]


def _print_some(section: str, lines: Sequence[str], limit: int | None) -> None:
    for line in lines[:limit]:
        print(f"unexplained, {section}: {line}")
    if limit is not None and len(lines) > limit:
        print(f"unexplained, {section}: and {len(lines) - limit} more (--all)")


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
