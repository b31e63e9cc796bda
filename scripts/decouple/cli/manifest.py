"""``decouple manifest``: show manifests, read their facts off published files."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.flows.manifest import FactsRequest, read_facts


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``manifest fill``."""
    command = subparsers.add_parser("manifest")
    verbs = command.add_subparsers(dest="verb", metavar="VERB", required=True)
    fill = verbs.add_parser(
        "fill",
        help="read the facts off PyPI and Debian; lists what differs, writes with --write",
        description="Read the facts of a release off published files (official wheel by HTTP range, Debian's signed "
        "index, NVIDIA's wheels) and compare them with series/<release>.toml. This is the only writer of that file. "
        "Exit code 1 when they differ and --write is not given.",
    )
    fill.add_argument("release", nargs="+", help="for example 2.6; also 2.7.0rc3, main-2026-11-20, acme-2.7")
    fill.add_argument("--tree", type=Path, metavar="DIR", help="what is not published: read the facts off this tree")
    fill.add_argument("--git", metavar="URL", help="what is not published: read them off --ref of this repository")
    fill.add_argument("--ref", help="tag, branch or commit (default: the tag of a release candidate)")
    fill.add_argument("--write", action="store_true", help="write series/<release>.toml")
    fill.set_defaults(run=run_fill)


def run_fill(arguments: argparse.Namespace) -> int:
    """Compare or write manifests. Raises DecoupleError."""
    code = OK
    for name in arguments.release:
        request = FactsRequest(find_project(), name, arguments.tree, arguments.git, arguments.ref)
        facts = read_facts(request, output.make_listener())
        path = facts.path
        for remark in facts.remarks:
            print(f"{path.name}: {remark}")
        if facts.new == facts.old:
            print(f"{path.name}: as published")
        elif arguments.write:
            write_atomically(path, facts.new)
            print(f"{path.name}: written")
        else:
            old, new = facts.old.splitlines(), facts.new.splitlines()
            print("\n".join(difflib.unified_diff(old, new, str(path), "as published", lineterm="")))
            code = CHECK_FAILED
    return code
