"""``decouple test-patches``: what the header of each patch says under ``Verify:`` of a running torch, asked."""

from __future__ import annotations

import argparse
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import asked
from decouple.flows.test_patches import PatchTrial, PatchTrialResult, test_patches
from decouple.verify.patches import KINDS


def register(subparsers: Any) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "test-patches",
        description="The questions stand in verify/patches.toml, with the answers of a torch that has the patch and of "
        "one that has not. Which this one is, it says itself. Exit code 1: an answer is another one.",
    )
    command.add_argument("release")
    command.add_argument(
        "--torch", default="built", metavar="built|smoke|stock|monolith|cpu|PYTHON", help="as test-cuda takes it"
    )
    command.add_argument("--label", help="what its results are called (default: the word of --torch)")
    command.add_argument("--device", default="auto", choices=["auto", "gpu", "simulated"])
    command.add_argument("--record", action="store_true", help="write the answers to ci/status/")
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    found = test_patches(asked(PatchTrial, arguments), output.listener())
    print_answers(found)
    return OK if found.ok else CHECK_FAILED


def print_answers(found: PatchTrialResult) -> None:
    """Which torch, then a line for each answer."""
    print(f"{found.label}: torch {found.torch}, {KINDS[found.kind]}, {found.device} device")
    for one in found.answers:
        where = "with a device" if one.device else "without a device"
        print(f"{'ok' if one.ok else 'FAILED':<6} {one.patch}: {one.asks}, {where}: {one.seen}")
        if one.alike:
            print(f"       the same as with the patch: {one.alike}")
        if not one.ok:
            print(f"       expected: {one.expected}")
    good = sum(one.ok for one in found.answers)
    print(f"{good} of {len(found.answers)} answers as expected")
