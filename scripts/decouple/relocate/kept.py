"""The moves of a tree, worked out once: what stage 1 includes takes thousands of files to find, and stays the same.

They are kept under the id of the commit that has the tree, and hold for the rules and for this code alone. What is
kept has its own hash beside it, and is made anew where that or anything else does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.outside import read_json
from decouple.inventory.rules import RuleFile
from decouple.relocate.plan import Move

_ROOMS = ("inventory", "relocate", "syntax")
"""What decides on moves: other code may decide otherwise."""


class _Kept(msgspec.Struct, frozen=True):
    moves: tuple[Move, ...]
    sha256: str


def find(cache: Path, commit: str, rules: RuleFile) -> tuple[Move, ...] | None:
    """The moves of ``commit``'s tree by ``rules``, where ``cache`` has them."""
    with contextlib.suppress(OSError, DecoupleError):
        kept = read_json(_place(cache, commit, rules), _Kept, mend="")
        if kept.sha256 == _digest(kept.moves):
            return kept.moves
    return None


def keep(cache: Path, commit: str, rules: RuleFile, moves: tuple[Move, ...]) -> None:
    """Keep them for the next time; those of other rules or other code go."""
    path = _place(cache, commit, rules)
    with contextlib.suppress(OSError):  # a cache that cannot be written costs time alone
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(_Kept(moves, _digest(moves))))
        for older in path.parent.glob("*.json"):
            if older != path:
                older.unlink(missing_ok=True)


def _place(cache: Path, commit: str, rules: RuleFile) -> Path:
    return cache / "moves" / commit / f"{_decided_by(rules)}.json"


def _digest(found: tuple[Move, ...]) -> str:
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()


def _decided_by(rules: RuleFile) -> str:
    digest = hashlib.sha256(msgspec.json.encode(rules, order="deterministic"))  # a set has no order of its own
    for room in _ROOMS:
        for module in sorted((Path(__file__).parents[1] / room).rglob("*.py")):
            digest.update(module.name.encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()
