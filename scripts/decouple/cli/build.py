"""``decouple build | smoke | shell | clean``: build wheels, enter roots, clean up."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from decouple.base.errors import OK, UsageError
from decouple.build import remote_cache
from decouple.build.shards import ObjectShard
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.verify import print_audit, print_verdict
from decouple.flows import build as flow
from decouple.flows import clean as cleaning
from decouple.flows import shell, verify
from decouple.flows.build_request import (
    BuildRequest,
    estimate_root,
    estimate_stages,
    format_lines,
    refuse_unbuildable,
)


def register(subparsers: Any) -> None:
    """Add the commands of the package ``build``."""
    build = subparsers.add_parser("build")
    _add_shared_options(build)
    build.add_argument(
        "--stage",
        type=int,
        choices=[1, 2],
        help="only this stage (default: both; with a core that is there, only 2)",
    )
    build.add_argument(
        "--core",
        choices=["built", "stock", "official"],
        default="",
        help="what stage 2 builds against (default: built; with --kernels official the official wheel's CPU half)",
    )
    build.add_argument(
        "--kernels",
        metavar="compiled|official|monolith|DIR",
        default="compiled",
        help="compile them (default), or compile bindings only and take those of the release's official wheel, of the "
        "root's single-stage build, or of an installed torch of this release that has CUDA",
    )
    build.add_argument("--profile", default="core", help="core (no CUPTI) or kineto-cupti")
    build.add_argument(
        "--arch",
        action="append",
        help="CUDA architectures, e.g. '8.0;9.0+PTX', or official; may be repeated (default: TORCH_CUDA_ARCH_LIST, or "
        "9.0)",
    )
    build.add_argument(
        "--cuda", default="", metavar="X.Y", help="the CUDA that stage 2 is compiled with (default: the environment's)"
    )
    build.add_argument(
        "--toolkit", default="", metavar="NAME", help="another vendor's toolkit for stage 2: rocm makes torch_hip"
    )
    build.add_argument("--no-flash", action="store_true", help="leave flash and memory-efficient attention out")
    build.add_argument("--slice", choices=["all", "runtime"], default="all", help=argparse.SUPPRESS)
    build.add_argument(
        "--revision", type=int, default=0, metavar="N", help="version 2.6.0+decoupled.N, to follow what was published"
    )
    build.add_argument(
        "--python", default="", metavar="X.Y", help="with portable: which Python the wheels are for (default: its own)"
    )
    build.add_argument(
        "--third-party", type=Path, metavar="DIR", help="with portable: a folder laid out as upstream's third_party"
    )
    build.add_argument(
        "--cache",
        default=os.environ.get(remote_cache.URL, ""),
        metavar="URL",
        help="a compiler cache that machines share, redis://HOST[:PORT]/DB (USER:PASSWORD@ goes before HOST) or "
        f"file:FOLDER (default: {remote_cache.URL}); with {remote_cache.KEY} in the environment only objects signed by "
        "it are taken",
    )
    build.add_argument(
        "--shard", metavar="N/OF", help="with --cache: compile this slice of the stage's objects into it, link nothing"
    )
    build.add_argument("--resume", action="store_true", help="go on where the last run stopped (the default)")
    build.add_argument("--estimate", action="store_true", help="say what it would cost, build nothing")
    build.set_defaults(run=_run_build)

    smoke = subparsers.add_parser("smoke")
    _add_shared_options(smoke, portably=False)  # it is against Debian's core
    smoke.add_argument("--arch", help="one CUDA architecture (default 9.0)")
    smoke.add_argument("--toolkit", default="", metavar="NAME", help="another vendor's: rocm, against a stock core too")
    smoke.add_argument(
        "--minutes", type=float, default=40, help="stop, with an error, when the build takes longer (default 40)"
    )
    smoke.add_argument(
        "--record", action="store_true", help="write the machine code's figures to ci/status/, for the status table"
    )
    smoke.set_defaults(run=_run_smoke)

    shell = subparsers.add_parser("shell")
    _add_shared_options(shell)
    shell.add_argument("--stage", type=int, choices=[1, 2], default=1, help="whose variables the shell gets")
    shell.add_argument("--core", choices=["built", "stock"], default="built", help="what stage 2 builds against")
    shell.add_argument("--cuda", default="", metavar="X.Y", help="the CUDA of stage 2 (default: the environment's)")
    shell.add_argument("--python", default="", metavar="X.Y", help="with portable: which Python (default: its own)")
    shell.add_argument("--run", dest="command", metavar="COMMAND", help="run this by bash -c instead")
    shell.set_defaults(run=_run_shell)

    clean = subparsers.add_parser("clean")
    clean.add_argument("release")
    clean.add_argument("--stage", type=int, choices=[1, 2], help="only this stage's build directory")
    clean.add_argument("--results", action="store_true", help="what test-cuda stored, too (build/…/verify/suites)")
    clean.add_argument("--rootfs", action="store_true", help="the Debian root, too")
    clean.add_argument(
        "--all-roots",
        action="store_true",
        help="every root in the cache, which other checkouts share: the portable one and those of `try wheels`, too",
    )
    clean.set_defaults(run=_run_clean)


def _add_shared_options(parser: argparse.ArgumentParser, *, portably: bool = True) -> None:
    parser.add_argument("release")
    parser.add_argument(
        "--env",
        choices=["auto", "host", "rootfs", *(["portable"] if portably else [])],
        default="auto",
        help=f"whose toolchain builds{'; portable: wheels for most machines' if portably else ''}",
    )
    parser.add_argument("--jobs", type=int, help="compile jobs at once (default: what cores and memory allow)")
    parser.add_argument("--tree", type=Path, help="the applied tree (default: build/<release>/src)")


def _run_build(arguments: argparse.Namespace) -> int:
    archs = None if arguments.arch is None else ";".join(arguments.arch)
    request = make_request(BuildRequest, arguments, archs=archs, flash=not arguments.no_flash, part=arguments.slice)
    if arguments.estimate and arguments.shard:
        raise UsageError("--shard: an estimate is of the whole stage", next_step="leave --shard or --estimate out")
    if arguments.estimate:
        refuse_unbuildable(request)
        print("\n".join(format_lines(estimate_root(request), estimate_stages(request))))
    elif arguments.shard:
        flow.build_shard(request, ObjectShard.parse(arguments.shard), output.make_listener())
    else:
        flow.build_wheels(request, output.make_listener())
    return OK


def _run_smoke(arguments: argparse.Namespace) -> int:
    request = make_request(verify.SmokeRequest, arguments, archs=arguments.arch)
    result = verify.run_smoke(request, output.make_listener(), print_audit)
    return print_verdict(result, 10)


def _run_shell(arguments: argparse.Namespace) -> int:
    return shell.run_shell(make_request(shell.ShellRequest, arguments), output.make_listener())


def _run_clean(arguments: argparse.Namespace) -> int:
    cleaning.clean_build(make_request(cleaning.CleanRequest, arguments), output.make_listener())
    return OK
