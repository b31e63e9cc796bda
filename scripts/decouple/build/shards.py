"""Cut a stage's objects into shards that end together.

Each of several machines with one compiler cache compiles one.

>>> cut_objects({"a.o": 9.0, "b.o": 5.0, "c.o": 4.0, "d.o": 1.0}, 2)
[('a.o', 'd.o'), ('b.o', 'c.o')]
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import Struct

from decouple.base.errors import DecoupleError, UsageError

_WORD = re.compile(r"([0-9]{1,4})/([0-9]{1,4})")


class ObjectShard(Struct, frozen=True):
    """The ``number``-th (from 1) of ``of`` shards."""

    number: int
    of: int

    @classmethod
    def parse(cls, word: str) -> ObjectShard:
        """Parse ``3/8``. Raises UsageError."""
        match = _WORD.fullmatch(word)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--shard {word}: the which of how many", next_step="--shard 3/8")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def cut_objects(seconds: Mapping[str, float], of: int) -> list[tuple[str, ...]]:
    """Cut the objects into ``of`` shards, by the seconds that each takes.

    Every machine cuts alike.

    The longest go first, each to the slice with the least so far: none then ends later than the mean by more than its
    last object (Graham's bound for the longest processing time first).
    """
    slices: list[list[str]] = [[] for _ in range(of)]
    load = [0.0] * of
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        lightest = load.index(min(load))
        slices[lightest].append(name)
        load[lightest] += seconds[name]
    return [tuple(sorted(shard)) for shard in slices]


def parse_objects(database: str, where: str) -> list[str]:
    """Parse the objects that ninja compiles, from what ``ninja -t compdb`` prints.

    Raises DecoupleError naming ``where``.
    """
    try:
        names = {str(row["output"]) for row in json.loads(database)}
    except (ValueError, TypeError, KeyError) as error:
        raise DecoupleError(
            f"{where}: ninja says not what it compiles: {error}", next_step="configure it anew"
        ) from None
    outputs = sorted(name for name in names if name.endswith(".o"))
    if not outputs:
        raise DecoupleError(f"{where}: ninja compiles nothing there", next_step="configure it anew")
    return outputs
