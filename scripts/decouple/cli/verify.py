"""``decouple verify``: check what was built."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.interpreter import parse_python
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.kernels import print_comparison, print_parity
from decouple.cli.request import make_request, refuse_unread
from decouple.cli.wheel_origin import print_origin
from decouple.flows import verify as flow
from decouple.flows import verify_official, verify_portable, verify_wheel
from decouple.verify.audit import ElfAudit
from decouple.verify.checks import CheckResult

_OFFICIAL = {"release", "env", "core", "python", "cuda", "tree", "kernels", "all"}
"""What a comparison with the official wheel reads."""
_CHECKS = "is compared with the official wheel as a whole, and runs no other check"


def register(subparsers: Any) -> None:
    """Add the commands of the package ``verify``."""
    verify = subparsers.add_parser("verify")
    verify.add_argument("release", metavar="RELEASE|WHEEL", help="a release, or a wheel's file: as `index verify`")
    verify.add_argument("--key", type=Path, help="with a wheel: the public key that must have signed it")
    verify.add_argument("--rebuild", action="store_true", help="with a wheel: apply the series again, compare the tree")
    verify.add_argument("--explain", action="store_true", help="with a wheel: print what it was made from, no check")
    verify.add_argument("--json", action="store_true", help="with --explain: the wheel's manifest itself")
    verify.add_argument("--env", choices=["auto", "host", "rootfs", "portable"], default="auto")
    verify.add_argument(
        "--core",
        choices=["built", "stock", "official"],
        default="built",
        help="the core that torch_cuda goes on; official: the CPU half of the official wheel, with its own kernels or, "
        "with --cuda, those compiled for it",
    )
    verify.add_argument(
        "--python",
        type=parse_python,
        help="with --core official or --env portable: a Python that has the official torch, to compare with",
    )
    verify.add_argument(
        "--cuda", default="", metavar="X.Y", help="with --env portable: the CUDA that stage 2 was compiled with"
    )
    verify.add_argument(
        "--over",
        choices=["monolith"],
        help="with --core stock: the wheel of `build --kernels monolith`, which has those of the root's CUDA build",
    )
    verify.add_argument("--tree", type=Path, help=argparse.SUPPRESS)
    verify.add_argument(
        "--kernels",
        metavar="official|monolith|FILE",
        help="compare the machine code of every kernel with the official wheel's, the root's monolith's, or a dump's",
    )
    verify.add_argument("--no-parity", action="store_true", help="leave the comparison with the monolith out")
    verify.add_argument("--no-extensions", action="store_true", help="compile no third-party CUDA extension")
    verify.add_argument("--no-tests", action="store_true", help="run none of upstream's CPU tests on the core")
    verify.add_argument("--all", action="store_true", help="print every missing and extra name, not the first ten")
    verify.set_defaults(run=_run_verify, parser=verify)


def _run_verify(arguments: argparse.Namespace) -> int:
    if arguments.json and not arguments.explain:
        raise UsageError("--json: of a wheel's manifest", next_step="add --explain")
    if arguments.release.endswith(".whl"):
        return _run_verify_wheel(arguments)
    if arguments.key or arguments.rebuild or arguments.explain:
        raise UsageError(
            "--key, --rebuild and --explain: of a wheel's file", next_step="decouple verify dist/2.6/torch-….whl"
        )
    if arguments.over and arguments.core != "stock":
        raise UsageError("--over: an unmodified core's alone", next_step="add --core stock; --core official needs none")
    if arguments.core == "official":
        return _run_verify_official(arguments)
    if arguments.env == "portable":
        return _run_verify_portable(arguments)
    if arguments.python or arguments.cuda:
        raise UsageError("--python and --cuda: of --env portable", next_step="add --env portable, or --core official")
    request = make_request(
        flow.VerifyRequest,
        arguments,
        parity=not arguments.no_parity,
        extensions=not arguments.no_extensions,
        tests=not arguments.no_tests,
    )
    result = flow.verify_wheels(request, output.make_listener(), print_audit)
    return print_verdict(result, None if arguments.all else 10)


def _run_verify_wheel(arguments: argparse.Namespace) -> int:
    way = {"release", "explain", "json"} if arguments.explain else {"release", "key", "rebuild"}
    why = "--explain checks nothing" if arguments.explain else "a wheel's file is held against its series alone"
    refuse_unread(arguments, way, why, "leave it out, or name a release in place of the file")
    path = Path(arguments.release)
    if arguments.explain:
        print_origin(path, as_json=arguments.json)
        return OK
    wheel = verify_wheel.VerifyWheelRequest(find_project(), path, arguments.key, arguments.rebuild)
    verify_wheel.verify_wheel(wheel, output.make_listener())
    return OK


def _run_verify_official(arguments: argparse.Namespace) -> int:
    if arguments.kernels not in (None, "official"):
        raise UsageError(
            f"--kernels {arguments.kernels}: this core's are the official ones", next_step="--kernels official"
        )
    if arguments.cuda and arguments.env != "portable":
        raise UsageError(f"--core official --cuda {arguments.cuda}: compiled portably", next_step="add --env portable")
    refuse_unread(arguments, _OFFICIAL, f"--core official {_CHECKS}", "leave it out")
    request = make_request(verify_official.VerifyOfficialRequest, arguments, kernels=arguments.kernels is not None)
    result = verify_official.verify_official_wheel(request, output.make_listener(), print_audit)
    return print_verdict(result, None if arguments.all else 10)


def _run_verify_portable(arguments: argparse.Namespace) -> int:
    if arguments.core != "built":
        raise UsageError("--env portable: our core, against the official wheel", next_step="leave --core out")
    refuse_unread(arguments, _OFFICIAL, f"--env portable {_CHECKS}", "leave it out")
    request = make_request(verify_portable.VerifyPortableRequest, arguments)
    result = verify_portable.verify_portable_wheels(request, output.make_listener(), print_audit)
    return print_verdict(result, None if arguments.all else 10)


def print_audit(reports: Sequence[ElfAudit]) -> None:
    """Print one line per audit, and its faults."""
    for report in reports:
        verdict = "FAILED" if report.faults else "ok"
        print(f"{verdict:<6} {report.what}: {report.files} files, {report.symbols} symbols")
        for fault in report.faults:
            print(f"       {fault}")


def print_verdict(result: flow.VerifyResult, limit: int | None) -> int:
    """Print every check and category (``limit`` names of each kind), and the verdict.

    Returns the exit code.
    """
    print_checks(result.checks)
    print_parity(result.parity, limit)
    if result.kernels:
        print_comparison(result.kernels, limit)
    print("verdict:", "ok" if result.ok else "FAILED")
    return OK if result.ok else CHECK_FAILED


def print_checks(results: Sequence[CheckResult]) -> None:
    """Print a line per promise, with what was seen."""
    for result in results:
        verdict = "FAILED" if not result.passed else "ok" if result.done else "-"
        print(f"{verdict:<6} {result.name}: {result.observed}")
