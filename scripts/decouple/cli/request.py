"""A flow's request, made of what was typed; what nothing would read is refused."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any, TypeVar

from msgspec import Struct

from decouple.base.errors import UsageError
from decouple.base.paths import find_project

R = TypeVar("R", bound=Struct)


def make_request(kind: type[R], arguments: argparse.Namespace, **given: Any) -> R:
    """Make a ``kind`` of what was typed.

    Each field is what the option of that name says, ``project`` this checkout; ``given`` goes first.

    What was not typed keeps the request's own default. Raises TypeError where ``given`` names no field: a slip of the
    caller's would else ask for the default.
    """
    if strange := given.keys() - set(kind.__struct_fields__):
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(strange))}")
    said = {"project": find_project(), **vars(arguments), **given}
    found = {name: said[name] for name in kind.__struct_fields__ if said.get(name) is not None}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


def refuse_unread(arguments: argparse.Namespace, read: Collection[str], why: str, next_step: str) -> None:
    """Raise UsageError for what was typed and is not among what is ``read``.

    The verb has set its own ``parser`` as a default. ``why`` says what of the verb this is, and what it reads.
    """
    typed = [
        max(action.option_strings, key=len, default=action.dest)
        for action in arguments.parser._actions
        if action.dest not in {*read, "show_commands"}
        and getattr(arguments, action.dest, action.default) not in (action.default, [])
    ]
    if typed:
        raise UsageError(f"{', '.join(typed)}: {why}", next_step=next_step)


def refuse_alone(arguments: argparse.Namespace, *needs: tuple[str, str]) -> None:
    """Raise UsageError for an option that was typed without one that it ``needs``."""
    for name, other in needs:
        if getattr(arguments, name) and not getattr(arguments, other):
            raise UsageError(f"--{name}: goes with --{other}", next_step=f"add --{other}, or leave --{name} out")
