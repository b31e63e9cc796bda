"""``decouple try``: finished wheels on a bare system, as those have it who install them; extensions; patches."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import extensions, output, test_patches
from decouple.cli.request import make_request
from decouple.cli.verify import print_checks
from decouple.flows import tryout


def register(subparsers: Any) -> None:
    """Add the command."""
    top = subparsers.add_parser("try")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    parser = verbs.add_parser("wheels", help="install finished wheels on a bare system, with what PyPI has for torch")
    parser.add_argument("release")
    parser.add_argument("system", nargs="+", help="debian-11, debian-12, debian-13, ubuntu-20.04, ubuntu-22.04")
    parser.add_argument(
        "--wheel", dest="wheels", type=Path, action="append", help="instead of those in dist/RELEASE (may be repeated)"
    )
    parser.add_argument(
        "--with", dest="projects", metavar="PROJECT", action="append", help="install this from PyPI on top, and use it"
    )
    parser.add_argument("--no-tests", action="store_true", help="run none of upstream's CPU tests")
    parser.add_argument("--keep", action="store_true", help="leave what was installed in build/RELEASE/tryout")
    parser.set_defaults(run=_run_tryout)
    extensions.register(verbs)
    test_patches.register(verbs)


def _run_tryout(arguments: argparse.Namespace) -> int:
    ok = True
    for system in arguments.system:
        results = tryout.try_wheels(
            make_request(tryout.TryoutRequest, arguments, system=system, tests=not arguments.no_tests),
            output.make_listener(),
        )
        print_checks(results)
        ok = ok and all(result.passed for result in results)
    return OK if ok else CHECK_FAILED
