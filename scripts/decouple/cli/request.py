"""A flow's request, made of what was typed."""

from __future__ import annotations

import argparse
from typing import Any, TypeVar

from msgspec import Struct

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
