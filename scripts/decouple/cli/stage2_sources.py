"""``decouple stage2-sources``: does stage 2 compile every translation unit that moves?"""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.cli import output, source_options
from decouple.flows import pristine
from decouple.inventory.rules import load
from decouple.relocate import stage2
from decouple.relocate.plan import make_plan


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("stage2-sources")
    parser.add_argument("release", help="a release that series/ has, such as 2.6")
    source_options.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the counts and every fault; 1 when there is one."""
    tree = pristine.tree(source_options.pristine(arguments), output.listener())
    found = stage2.check(tree, make_plan(tree, load()).mapping, find_project())
    print(f"{found.units} translation units move: stage 2 compiles {found.compiled}, leaves out {len(found.left)}")
    for reason in dict.fromkeys(reason for _, reason in found.left):
        print(f"  {sum(reason == other for _, other in found.left):5}  {reason}")
    for fault in found.faults:
        print(fault)
    return CHECK_FAILED if found.faults else OK
