"""Keep the moves of a tree that were worked out once.

What stage 1 includes takes thousands of files to find, and stays the same. They are kept under the id of the commit
that has the tree, and hold for the rules and for this code alone. What is kept has this user's seal, and is made anew
where that or anything else does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

import msgspec

from decouple.base import seal
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.untrusted_input import JSON_BOUND, read_bounded
from decouple.inventory.rules import RuleFile
from decouple.relocate.plan import Move

_PACKAGES = ("inventory", "relocate", "syntax")
"""What decides on moves: other code may decide otherwise."""


def find_moves(cache: Path, commit: str, rules: RuleFile) -> tuple[Move, ...] | None:
    """Return the moves of ``commit``'s tree by ``rules``, where ``cache`` has them."""
    path = _locate_file(cache, commit, rules)
    with contextlib.suppress(OSError, DecoupleError, msgspec.MsgspecError):
        kept = seal.remove_seal(_make_seal_name(path), read_bounded(path, JSON_BOUND))
        if kept is not None:
            return msgspec.json.decode(kept, type=tuple[Move, ...])
    return None


def keep_moves(cache: Path, commit: str, rules: RuleFile, moves: tuple[Move, ...]) -> None:
    """Keep them for the next time; those of other rules or other code are deleted."""
    path = _locate_file(cache, commit, rules)
    # a cache that cannot be written costs time alone; JSON has no names that are not UTF-8
    with contextlib.suppress(OSError, UnicodeEncodeError):
        data = seal.add_seal(_make_seal_name(path), msgspec.json.encode(moves))
        if data is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
        for older in path.parent.glob("*.json"):
            if older != path:
                older.unlink(missing_ok=True)


def _locate_file(cache: Path, commit: str, rules: RuleFile) -> Path:
    return cache / "moves" / commit / f"{_compute_rules_digest(rules)}.json"


def _make_seal_name(path: Path) -> str:
    """Return what the seal is for: the commit and what decided."""
    return f"{path.parent.name}/{path.name}"


def _compute_rules_digest(rules: RuleFile) -> str:
    digest = hashlib.sha256(msgspec.json.encode(rules, order="deterministic"))  # a set has no order of its own
    for package in _PACKAGES:
        for module in sorted((Path(__file__).parents[1] / package).rglob("*.py")):
            digest.update(module.name.encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()
