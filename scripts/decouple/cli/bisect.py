"""``decouple bisect``: which patch of the series breaks a command."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows.bisect import BisectRequest, find_culprit


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    bisect = subparsers.add_parser(
        "bisect",
        description="Judge the applied tree with ever fewer patches suspected, the cheapest question first: do the "
        "touched Python files compile; --configure; --compile; COMMAND, whose exit status 0 is good, 125 cannot tell, "
        "anything else bad. The tree is left as it was.",
    )
    _add_options(bisect)
    bisect.add_argument("release")
    bisect.add_argument("oracle", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    bisect.set_defaults(run=run_bisect)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--configure", action="store_true", help="does CMake take it? as `build` configures stage 1")
    parser.add_argument("--compile", action="store_true", help="do the touched sources compile? implies --configure")
    parser.add_argument(
        "--env", choices=["auto", "host", "rootfs"], default="auto", help="the build environment, as for `build`"
    )
    parser.add_argument(
        "--here", metavar="COMMAND", help="configure with this, on this machine and not in the build environment"
    )


def run_bisect(arguments: argparse.Namespace) -> int:
    """Search and print; always return 1: a bad patch was found, or an error."""
    words: list[str] = arguments.oracle  # argparse leaves all behind the release to it, our own options too
    at = 0
    if words[:1] and words[0].startswith("-"):  # a "--" behind the command's name is the command's own
        at = words.index("--") if "--" in words else len(words)
    late = argparse.ArgumentParser(prog="decouple bisect RELEASE", add_help=False)
    _add_options(late)
    late.parse_args(words[:at], namespace=arguments)
    command = words[at + 1 :] if words[at : at + 1] == ["--"] else words[at:]
    request = make_request(BisectRequest, arguments, command=command)
    culprit = find_culprit(request, output.make_listener(for_program=True))
    print(f"{culprit.first_bad} breaks it ({culprit.looked_at} trees looked at): {culprit.said}")
    return CHECK_FAILED
