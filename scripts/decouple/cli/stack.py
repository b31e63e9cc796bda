"""quilt's verbs that move the applied tree of a release up and down its series, and say where it stands."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.cli.stack_words import Subparsers, open_at, opened, patch, verb, where
from decouple.patch import seriesfile
from decouple.stack.engine import Moved


def register(subparsers: Subparsers) -> None:
    """Add the verbs."""
    text = "apply the next patch, N patches, or those up to NAME"
    push = verb(subparsers, "push", _push, text, "[N|NAME]")
    push.add_argument("-a", "--all", action="store_true", help="apply all of them, then the overlay")
    push.add_argument("--no-overlay", action="store_true", help="leave the overlay off")
    pop = verb(subparsers, "pop", _pop, "take off the top patch, N patches, or those above NAME", "[N|NAME]")
    pop.add_argument("-a", "--all", action="store_true", help="take off all of them")
    verb(subparsers, "top", _top, "name the topmost applied patch")
    series = verb(subparsers, "series", _series, "list the patches of the series")
    series.add_argument("-v", "--verbose", action="store_true", help="mark applied patches with +, the top one with =")
    verb(subparsers, "applied", _applied, "list the applied patches")
    verb(subparsers, "unapplied", _unapplied, "list the patches that are not applied")


def _amount(arguments: argparse.Namespace, words: list[str]) -> str | int | None:
    if arguments.all:
        if words:
            raise UsageError(f"-a and {words[0]!r} exclude each other", next_step="give one of them")
        return None
    if not words:
        return 1
    return int(words[0]) if words[0].isdigit() and len(words[0]) < 4 else words[0]


def _push(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1) as (stack, words):
        moved = stack.push(_amount(arguments, words), overlay=not arguments.no_overlay)
        return _say_moved(moved, nothing="everything is applied")


def _pop(arguments: argparse.Namespace) -> int:
    with opened(arguments, most=1) as (stack, words):
        return _say_moved(stack.pop(_amount(arguments, words)), nothing="nothing is applied")


def _say_moved(moved: Moved, nothing: str) -> int:
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


def _top(arguments: argparse.Namespace) -> int:
    with opened(arguments) as (stack, _):
        print(patch(stack, []))
    return OK


def _series(arguments: argparse.Namespace) -> int:
    places, _ = where(arguments)
    if not arguments.verbose:
        print("\n".join(seriesfile.read(places.series).names))
        return OK
    with open_at(places) as stack:
        for name in stack.series.names:
            print("=" if name == stack.top else "+" if name in stack.applied else " ", name)
    return OK


def _applied(arguments: argparse.Namespace) -> int:
    with opened(arguments) as (stack, _):
        for name in stack.applied:
            print(name)
    return OK


def _unapplied(arguments: argparse.Namespace) -> int:
    with opened(arguments) as (stack, _):
        for name in stack.unapplied:
            print(name)
    return OK
