"""``decouple try extensions``: projects with CUDA kernels of their own, compiled against an installed torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.verify import print_checks
from decouple.flows import extensions as flow


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "extensions", help="compile projects with CUDA kernels against an installed torch, and use them"
    )
    parser.add_argument("release")
    parser.add_argument("names", nargs="*", metavar="PROJECT", help="of extensions.toml (all)")
    parser.add_argument("--python", type=Path, required=True, help="has torch, setuptools and wheel")
    parser.add_argument("--toolkit", type=Path, metavar="DIR", help="the folder of CUDA, with bin/nvcc (CUDA_HOME)")
    parser.add_argument("--arch", dest="archs", metavar="LIST", help="TORCH_CUDA_ARCH_LIST (9.0)")
    parser.set_defaults(run=_run_extensions)


def _run_extensions(arguments: argparse.Namespace) -> int:
    failed = False
    for result in flow.try_extensions(make_request(flow.ExtensionsRequest, arguments), output.make_listener()):
        print_checks([result])  # each takes minutes
        failed |= not result.passed
    return CHECK_FAILED if failed else OK
