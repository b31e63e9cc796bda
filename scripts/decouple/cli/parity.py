"""``decouple parity``: the table of a torch against the official wheel."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_output
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows import parity as flow
from decouple.verify.full_parity import comparison
from decouple.verify.full_parity.comparison import JudgedSection, WholeTable


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
    parity.add_argument("--json", type=output.parse_output, metavar="FILE", help="every name of every section")
    parity.add_argument("--all", action="store_true", help="every unexplained name, not the first five of each kind")
    parity.add_argument("--record", action="store_true", help="write the figures to ci/status/")
    parity.set_defaults(run=_run_parity)


def _run_parity(arguments: argparse.Namespace) -> int:
    table = flow.compare_parity(make_request(flow.ParityRequest, arguments), output.make_listener())
    if arguments.json:
        document = {**msgspec.to_builtins(table), "unexplained": table.unexplained, "ok": table.ok}
        write_output(arguments.json, json.dumps(document, indent=1) + "\n")
    return print_table(table, None if arguments.all else 5)


def print_table(table: WholeTable, limit: int | None = None) -> int:
    """Print a row per section, its reasons, and what has none (``limit`` of each).

    Returns the exit code.
    """
    print(f"{'':<34}{'equal':>9}{'missing':>9}{'extra':>9}{'different':>11}{'unexplained':>13}")
    for judged in table.sections:
        it = judged.compared
        counts = (
            f"{it.equal:>9}{len(it.missing):>9}{len(it.extra):>9}{len(it.different):>11}{len(judged.unexplained):>13}"
        )
        print(f"{it.section:<34}{counts}")
    reasons = [(judged.compared.section, reason) for judged in table.sections for reason in judged.reasons]
    if reasons:
        print("\nreasons")
    for section, reason in reasons:
        print(f"  {section}, {len(reason.names)}: {reason.why}")
    for judged in table.sections:
        _print_left(judged, limit)
    for line in table.unused:
        print(f"out of date in reasons.toml ({table.side}): {line}")
    failed = f"{table.unexplained} unexplained" if table.total else "nothing to compare"
    print(f"verdict ({table.side}):", "ok" if table.ok else f"FAILED: {failed}")
    return OK if table.ok else CHECK_FAILED


def _print_left(section: JudgedSection, limit: int | None) -> None:
    """Print what of a section has no reason.

    Missing names, and different ones with both sides.
    """
    left = set(section.unexplained)
    if comparison.NOTHING in left:
        _print_some(section.compared.section, [f"{comparison.NOTHING}: the other side has no name of this kind"], limit)
    lines = [
        f"differs: {each.name}: {_shorten_text(each.ours)}, theirs {_shorten_text(each.theirs)}"
        for each in section.compared.different
        if each.name in left
    ]
    _print_some(
        section.compared.section, _gather_names([name for name in section.compared.missing if name in left]), limit
    )
    _print_some(section.compared.section, lines, limit)


def _gather_names(names: Sequence[str]) -> list[str]:
    """Return missing names; in a missing module or class they are only counted."""
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


def _shorten_text(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
