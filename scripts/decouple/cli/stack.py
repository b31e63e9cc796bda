"""quilt's verbs that move the applied tree of a release up and down its series."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.cli.stack_words import open_stack
from decouple.cli.verbs import add_verb
from decouple.stack.engine import MoveResult


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    push = add_verb(subparsers, "push", _run_push, "[N|NAME]")
    push.add_argument("-a", "--all", action="store_true", help="apply all of them, then the overlay")
    push.add_argument("--no-overlay", action="store_true", help="leave the overlay off")
    pop = add_verb(subparsers, "pop", _run_pop, "[N|NAME]")
    pop.add_argument("-a", "--all", action="store_true", help="take off all of them")


def _parse_amount(arguments: argparse.Namespace, words: list[str]) -> str | int | None:
    if arguments.all:
        if words:
            raise UsageError(f"-a and {words[0]!r} exclude each other", next_step="give one of them")
        return None
    if not words:
        return 1
    return int(words[0]) if words[0].isascii() and words[0].isdigit() and len(words[0]) < 4 else words[0]


def _run_push(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1) as (stack, words):
        moved = stack.push(_parse_amount(arguments, words), overlay=not arguments.no_overlay)
        return _print_moved(moved, nothing="everything is applied")


def _run_pop(arguments: argparse.Namespace) -> int:
    with open_stack(arguments, most=1) as (stack, words):
        return _print_moved(stack.pop(_parse_amount(arguments, words)), nothing="nothing is applied")


def _print_moved(moved: MoveResult, nothing: str) -> int:
    if not moved.pushed and not moved.popped and not moved.overlay and not moved.stopped:
        print(nothing)
        return CHECK_FAILED  # as quilt: asked to move, and there is nowhere to go
    if moved.overlay == "taken off":
        print("overlay taken off")
    for name in moved.popped:
        print(f"removed {name}")
    for name in moved.pushed:
        print(f"applied {name}")
        for offset in moved.offsets.get(name, ()):
            print(f"  {offset}")
    if moved.overlay == "laid":
        print("overlay laid")
    print(f"now at {moved.top or 'the bare source'} ({moved.files} files touched)")
    if moved.stopped:
        raise moved.stopped
    return OK
