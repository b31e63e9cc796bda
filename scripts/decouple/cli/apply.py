"""``decouple apply | status``: a release from source to applied tree, and how far the two agree."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from msgspec import to_builtins

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import asked
from decouple.cli.source_word import source_option
from decouple.cli.stack_words import release_alone
from decouple.cli.verbs import verb
from decouple.flows.apply import Apply
from decouple.flows.apply import apply as bring
from decouple.stack.status import status as tree_status


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    apply = verb(subparsers, "apply", _apply)
    source_option(apply)
    apply.add_argument(
        "--debian-patches",
        action=argparse.BooleanOptionalAction,
        help="lay Debian's own patches under ours, as a build in the Debian root does (default: as the tree has it)",
    )
    apply.add_argument("--offline", action="store_true", help="use the cache only")
    apply.add_argument(
        "--also",
        type=Path,
        metavar="FILE",
        help="words, macros and rules of this tree alone (TOML), for the verdict on a carried series",
    )
    status = verb(subparsers, "status", _status)
    status.add_argument("--json", action="store_true", help="print it as JSON")


def _apply(arguments: argparse.Namespace) -> int:
    if len(arguments.words) == 1:  # one without a series yet is carried
        project, release = find_project(), arguments.words[0]
    else:
        project, release = release_alone(arguments)
    moved = bring(asked(Apply, arguments, project=project, release=release), output.listener())
    return CHECK_FAILED if moved.verdict and not moved.verdict.clean else OK


def _status(arguments: argparse.Namespace) -> int:
    """Exit 0 if everything agrees, 1 if not."""
    found = tree_status(*release_alone(arguments))
    if arguments.json:
        print(json.dumps(to_builtins(found, enc_hook=str) | {"clean": found.clean}, indent=2))
        return OK if found.clean else CHECK_FAILED
    wide = max((len(patch.name) for patch in found.patches), default=0)
    print(f"{'patch':<{wide}}  {'+':>6} {'-':>6} {'quoted':>6} {'renames':>7}  state")
    for patch in found.patches:
        size = patch.size
        note = f", {patch.offsets} hunks with an offset" if patch.offsets else ""
        print(
            f"{patch.name:<{wide}}  {size.added:>6} {size.removed:>6} {size.context:>6} {size.renames:>7}  "
            f"{patch.state}{note}"
        )
    sizes = [patch.size for patch in found.patches if patch.size.in_file]
    added, removed, quoted = (sum(getattr(size, key) for size in sizes) for key in ("added", "removed", "context"))
    print(
        f"{len(sizes)} in-file patches: {added + removed} changed lines (+{added} -{removed}), "
        f"{quoted} upstream lines quoted as context"
    )
    if not found.applied:
        print(f"tree: none at {found.tree}; `decouple apply {found.release}` makes it")
        return CHECK_FAILED
    print(f"tree: {found.tree} on {found.base[:12]}; overlay {found.overlay}")
    for title in found.commits:
        print(f"  commit in no patch: {title}")
    for path in found.edited:
        print(f"  uncommitted edit: {path}")
    for note in found.notes:
        print(f"  {note}")
    return OK if found.clean else CHECK_FAILED
