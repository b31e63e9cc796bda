"""``decouple relocate``: plan what moves, make the rename-only patch that does it."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from decouple.base.errors import CHECK_FAILED, OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_pristine_options
from decouple.flows.relocate import PATCH, RelocateRequest, find_unplaced, relocate_files
from decouple.inventory.rules import RuleFile
from decouple.relocate.plan import Plan


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "relocate", description="Every file that moves and every one that stays, under the rule that says so; counts."
    )
    add_pristine_options(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help=f"write patches/<release>/{PATCH}")
    group.add_argument("--check", action="store_true", help="fail unless that patch is what the rules generate")
    group.add_argument("--table", action="store_true", help="one line for each, tab-separated, for programs")
    group.add_argument("--json", action="store_true", help="print the whole plan as JSON")
    group.add_argument("--unclassified", action="store_true", help="print the CUDA files that no rule places")
    parser.set_defaults(run=run_relocate)


def run_relocate(arguments: argparse.Namespace) -> int:
    """Print, write or check; 1 if --check differs or --unclassified finds a file."""
    request = make_request(RelocateRequest, arguments)
    listener = output.make_listener(for_program=arguments.json or arguments.table)
    if arguments.unclassified:
        left = find_unplaced(request, listener)
        print("\n".join(left) if left else "every CUDA file has its place")
        return CHECK_FAILED if left else OK
    made = relocate_files(request, listener)
    plan, moves = made.plan, f"{len(made.plan.moves)} renames"
    if arguments.check:
        print(f"{made.patch.name}: {'is' if made.same else 'is NOT'} what the rules generate ({moves})")
        return OK if made.same else CHECK_FAILED
    if arguments.write:
        print(f"{made.patch}: {moves}, {'unchanged' if made.same else 'written'}")
    elif arguments.json:
        print(json.dumps(_make_json(plan, made.rules), indent=1))
    elif arguments.table:
        _print_table(plan)
    else:
        _print_by_rule(plan, made.rules)
    return OK


def _make_json(plan: Plan, rules: RuleFile) -> dict[str, object]:
    return {
        "schema": 1,
        "root": rules.root,
        "moves": [{"from": move.origin, "to": move.target, "rules": move.rules} for move in plan.moves],
        "stays": [{"path": s.path, "by": s.by, "reason": s.reason, "chain": s.chain} for s in plan.stays],
        "idle_rules": plan.idle,
    }


def _print_table(plan: Plan) -> None:
    for move in plan.moves:
        print(f"move\t{move.origin}\t{move.target}\t{', '.join(move.rules)}")
    for stay in plan.stays:
        print(f"stay\t{stay.path}\t-\t{stay.by}: {stay.reason}")


def _print_by_rule(plan: Plan, rules: RuleFile) -> None:
    """Print every file under the rule that decides it, what moves first.

    Then the counts.
    """
    why = {rule.name: rule.reason for rule in rules.rules}
    moves: dict[str, list[str]] = {}
    for move in plan.moves:
        moves.setdefault(move.rules[0], []).append(f"{move.origin} -> {move.target.removeprefix(rules.root + '/')}")
    kept = {keep.name for keep in rules.keeps}
    stays: dict[tuple[str, str], list[str]] = {}
    for stay in plan.stays:
        # what a [[keep]] says is told once; where stage 1 needs a file that none names, why, of each
        texts = (stay.reason, "") if stay.by in kept else ("", f": {stay.reason}")
        stays.setdefault((stay.by, texts[0]), []).append(f"{stay.path}{texts[1]}")
    for name, lines in sorted(moves.items()):
        _print_group(f"move by {name}: {why[name]}", lines)
    for (name, reason), lines in sorted(stays.items()):
        _print_group(f"stay by {name}: {reason or 'a build without CUDA needs them'}", lines)
    print()
    _print_counts(plan, rules)


def _print_group(title: str, lines: list[str]) -> None:
    print(f"{title} ({len(lines)})")
    for line in lines:
        print(f"  {line}")


def _print_counts(plan: Plan, rules: RuleFile) -> None:
    places = Counter(_format_place(move.target, rules.root) for move in plan.moves)
    print(f"{len(plan.moves)} files move below {rules.root}:")
    for place, count in sorted(places.items()):
        print(f"  {count:5}  {place}")
    print(f"{len(plan.stays)} files that look like CUDA's stay:")
    for by, count in sorted(Counter(stay.by for stay in plan.stays).items()):
        print(f"  {count:5}  {by}")
    print(f"stage 1 compiles or includes {len(plan.stage1)} files of the tree")
    if plan.idle:
        print(f"placed nothing here: {', '.join(plan.idle)}")


def _format_place(target: str, root: str) -> str:
    parts = target.removeprefix(root + "/").split("/")
    depth = 3 if parts[:2] == ["csrc", "framework"] else 2 if parts[0] == "csrc" else 1
    return "/".join(parts[:depth]) if len(parts) > depth else "/".join(parts[: depth - 1])
