"""``decouple try``: try finished wheels, extensions and patches on a bare system."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.interpreter import parse_python
from decouple.build import bare_systems
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.verify import print_checks
from decouple.flows import extensions, tryout
from decouple.flows.test_cuda import format_torch_words
from decouple.flows.test_patches import PatchTrialRequest, PatchTrialResult, try_patches
from decouple.verify.patches import KINDS


def register(subparsers: Any) -> None:
    """Add the command."""
    top = subparsers.add_parser("try")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_wheels(verbs)
    _add_extensions(verbs)
    _add_patches(verbs)


def _add_wheels(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "wheels", help="install finished wheels on a bare system, with what PyPI has for torch"
    )
    parser.add_argument("release")
    parser.add_argument("system", nargs="+", help="debian-11, debian-12, debian-13, ubuntu-20.04, ubuntu-22.04")
    parser.add_argument(
        "--wheel", dest="wheels", type=Path, action="append", help="instead of those in dist/RELEASE (may be repeated)"
    )
    parser.add_argument(
        "--with", dest="projects", metavar="PROJECT", action="append", help="install this from PyPI on top, and use it"
    )
    parser.add_argument("--no-tests", action="store_true", help="run none of upstream's CPU tests")
    parser.add_argument("--record", action="store_true", help="write the figures to ci/status/")
    parser.add_argument("--keep", action="store_true", help="leave what was installed in build/RELEASE/tryout")
    parser.set_defaults(run=_run_wheels)


def _run_wheels(arguments: argparse.Namespace) -> int:
    ok = True
    for system in arguments.system:  # before an hour on the first of them
        bare_systems.find_system(system)
    for system in arguments.system:
        results = tryout.try_wheels(
            make_request(tryout.TryoutRequest, arguments, system=system, tests=not arguments.no_tests),
            output.make_listener(),
        )
        print_checks(results)
        ok = ok and all(result.passed for result in results)
    return OK if ok else CHECK_FAILED


def _add_extensions(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "extensions", help="compile projects with CUDA kernels against an installed torch, and use them"
    )
    parser.add_argument("release")
    parser.add_argument("names", nargs="*", metavar="PROJECT", help="of extensions.toml (all)")
    parser.add_argument("--python", type=parse_python, required=True, help="has torch, setuptools and wheel")
    parser.add_argument("--toolkit", type=Path, metavar="DIR", help="the folder of CUDA, with bin/nvcc (CUDA_HOME)")
    parser.add_argument("--arch", dest="archs", metavar="LIST", help="TORCH_CUDA_ARCH_LIST (9.0)")
    parser.set_defaults(run=_run_extensions)


def _run_extensions(arguments: argparse.Namespace) -> int:
    failed = False
    for result in extensions.try_extensions(
        make_request(extensions.ExtensionsRequest, arguments), output.make_listener()
    ):
        print_checks([result])  # each takes minutes
        failed |= not result.passed
    return CHECK_FAILED if failed else OK


def _add_patches(subparsers: Any) -> None:
    command = subparsers.add_parser(
        "patches",
        help="what each patch promises of a running torch, asked with a device and without",
        description="The questions stand in verify/patches.toml, with the answers of a torch that has the patch and of "
        "one that has not. Which this one is, it says itself. Exit code 1: an answer is another one.",
    )
    command.add_argument("release")
    command.add_argument(
        "--torch",
        default="built",
        metavar=format_torch_words(backend=False),
        help="as test-cuda takes it, and a torch without a device",
    )
    command.add_argument("--label", help="what its results are called (default: the word of --torch)")
    command.add_argument("--device", default="auto", choices=["auto", "gpu", "simulated"])
    command.add_argument("--record", action="store_true", help="write the answers to ci/status/")
    command.set_defaults(run=_run_patches)


def _run_patches(arguments: argparse.Namespace) -> int:
    trial = try_patches(make_request(PatchTrialRequest, arguments), output.make_listener())
    _print_answers(trial)
    return OK if trial.ok else CHECK_FAILED


def _print_answers(trial: PatchTrialResult) -> None:
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
