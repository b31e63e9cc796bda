"""``decouple try patches``: what the header of each patch says under ``Verify:`` of a running torch, asked."""

from __future__ import annotations

import argparse
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.test_patches import PatchTrialRequest, PatchTrialResult, try_patches
from decouple.verify.patches import KINDS


def register(subparsers: Any) -> None:
    """Add the command."""
    command = subparsers.add_parser(
        "patches",
        help="what each patch promises of a running torch, asked with a device and without",
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
    command.set_defaults(run=_run_test_patches)


def _run_test_patches(arguments: argparse.Namespace) -> int:
    trial = try_patches(make_request(PatchTrialRequest, arguments), output.make_listener())
    print_answers(trial)
    return OK if trial.ok else CHECK_FAILED


def print_answers(trial: PatchTrialResult) -> None:
    """Print which torch it was, then a line for each answer."""
    print(f"{trial.label}: torch {trial.torch}, {KINDS[trial.kind]}, {trial.device} device")
    for answer in trial.answers:
        place = "with a device" if answer.device else "without a device"
        print(f"{'ok' if answer.ok else 'FAILED':<6} {answer.patch}: {answer.asks}, {place}: {answer.seen}")
        if answer.alike:
            print(f"       the same as with the patch: {answer.alike}")
        if not answer.ok:
            print(f"       expected: {answer.expected}")
    good = sum(answer.ok for answer in trial.answers)
    print(f"{good} of {len(trial.answers)} answers as expected")
