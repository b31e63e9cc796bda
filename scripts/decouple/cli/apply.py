"""``decouple apply | status``: make the applied tree, tell how far it agrees."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from msgspec import to_builtins

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.paths import find_project
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_source_option
from decouple.cli.stack_words import parse_release_alone
from decouple.cli.verbs import add_verb
from decouple.flows.apply import ApplyRequest
from decouple.flows.apply import apply_series as bring
from decouple.stack.status import read_status as tree_status


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    apply = add_verb(subparsers, "apply", _run_apply)
    add_source_option(apply)
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
    status = add_verb(subparsers, "status", _run_status)
    status.add_argument("--json", action="store_true", help="print it as JSON")


def _run_apply(arguments: argparse.Namespace) -> int:
    if len(arguments.words) == 1:  # one without a series yet is carried
        project, release = find_project(), arguments.words[0]
    else:
        project, release = parse_release_alone(arguments)
    moved = bring(make_request(ApplyRequest, arguments, project=project, release=release), output.make_listener())
    return CHECK_FAILED if moved.verdict and not moved.verdict.is_clean else OK


def _run_status(arguments: argparse.Namespace) -> int:
    """Exit 0 if everything agrees, 1 if not."""
    state = tree_status(*parse_release_alone(arguments))
    if arguments.json:
        print(json.dumps(to_builtins(state, enc_hook=str) | {"clean": state.is_clean}, indent=2))
        return OK if state.is_clean else CHECK_FAILED
    wide = max((len(patch.name) for patch in state.patches), default=0)
    print(f"{'patch':<{wide}}  {'+':>6} {'-':>6} {'quoted':>6} {'renames':>7}  state")
    for patch in state.patches:
        size = patch.size
        note = f", {patch.offsets} hunks with an offset" if patch.offsets else ""
        print(
            f"{patch.name:<{wide}}  {size.added:>6} {size.removed:>6} {size.context:>6} {size.renames:>7}  "
            f"{patch.state}{note}"
        )
    sizes = [patch.size for patch in state.patches if patch.size.in_file]
    added, removed, quoted = (sum(getattr(size, key) for size in sizes) for key in ("added", "removed", "context"))
    print(
        f"{len(sizes)} in-file patches: {added + removed} changed lines (+{added} -{removed}), "
        f"{quoted} upstream lines quoted as context"
    )
    if not state.applied:
        print(f"tree: none at {state.tree}; `{state.next_step}` makes it")
        return CHECK_FAILED
    print(f"tree: {state.tree} on {state.base[:12]}; overlay {state.overlay}")
    for title in state.commits:
        print(f"  commit in no patch: {title}")
    for path in state.edited:
        print(f"  uncommitted edit: {path}")
    for note in state.notes:
        print(f"  {note}")
    if state.next_step:
        print(f"  next: {state.next_step}")
    return OK if state.is_clean else CHECK_FAILED
