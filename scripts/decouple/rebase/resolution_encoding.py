"""Encode how a conflict was settled, without upstream's text.

The code is hashes of its lines, and our own lines. A merged file is read as tokens: a line is one, and a whole conflict
is one, known by its three sides with white space left out. What a person made of it is where tokens went and lines
came. Of those lines, the ones that upstream has are told by their hash, and only ours are quoted. So another comment
elsewhere in the file changes nothing, and the same conflict on another release is settled the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Annotated

from msgspec import Meta, Struct

from decouple.patch.lines import split_lines

Hex = Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{2})*\Z")]
Word = Annotated[str, Meta(pattern=r"\A(?:[=+]|x(?:[0-9a-f]{2})*\Z)")]
"""A line that comes, as `SettledChange` has it."""
AROUND = 3
"""Lines on both sides that hold an edit in its place."""
_BEGIN, _BASE, _MIDDLE, _END = (
    re.compile(mark + rb"(?: |$)", re.M) for mark in (rb"<{7}", rb"\|{7}", rb"={7}", rb">{7}")
)


class Token(Struct, frozen=True):
    """One line, or one conflict with its lines in release, base and patch."""

    key: str
    line: bytes = b""
    sides: tuple[tuple[bytes, ...], ...] = ()


class SettledChange(Struct, frozen=True):
    """Tokens that went, between tokens that stayed, and what came.

    What came is ``=HASH`` of upstream's lines, ``+`` and ours, or ``x`` and ours in hex where it is no UTF-8.
    """

    before: tuple[str, ...]
    gone: tuple[str, ...]
    after: tuple[str, ...]
    put: tuple[Word, ...]


def split_tokens(data: bytes) -> list[Token]:
    """Split a merged text with conflict markers (diff3 style) into tokens."""
    tokens: list[Token] = []
    sides: list[list[bytes]] | None = None
    for line in split_lines(data):
        if sides is None:
            if _BEGIN.match(line):
                sides = [[]]
            else:
                tokens.append(Token(hash_line(line), line))
        elif _END.match(line):
            tokens.append(Token(_hash_conflict(sides), sides=tuple(tuple(side) for side in sides)))
            sides = None
        elif _BASE.match(line) or (_MIDDLE.match(line) and line.strip() == b"=" * 7):
            sides.append([])
        else:
            sides[-1].append(line)
    return tokens


def list_conflict_keys(data: bytes) -> tuple[str, ...]:
    """Return the keys of all conflicts in a merged text."""
    return tuple(token.key for token in split_tokens(data) if token.sides)


def hash_line(line: bytes) -> str:
    """Return the key of a line, its white space included.

    What a line is put back as must be the line.
    """
    return hashlib.sha256(line).hexdigest()[:16]


def record_changes(merged: bytes, settled: bytes) -> tuple[SettledChange, ...]:
    """Return what turns ``merged`` into ``settled``."""
    old = split_tokens(merged)
    keys = [token.key for token in old]
    lines = split_lines(settled)
    mine = {hash_line(line) for token in old for side in token.sides[2:] for line in side}
    theirs = {token.key for token in old if not token.sides}
    theirs |= {hash_line(line) for token in old for side in token.sides[:2] for line in side}
    changes = []
    same = SequenceMatcher(None, keys, [hash_line(line) for line in lines], autojunk=False)
    for tag, i1, i2, j1, j2 in same.get_opcodes():
        if tag != "equal":
            put = tuple(_make_word(line, mine, theirs) for line in lines[j1:j2])
            changes.append(
                SettledChange(
                    tuple(keys[max(0, i1 - AROUND) : i1]), tuple(keys[i1:i2]), tuple(keys[i2 : i2 + AROUND]), put
                )
            )
    return tuple(changes)


def replay_changes(merged: bytes, changes: Sequence[SettledChange]) -> bytes | None:
    """Apply ``changes`` to ``merged``.

    None where one has not exactly one place, or a line that it names is not there.
    """
    old = split_tokens(merged)
    known = {token.key: token.line for token in old if not token.sides}
    for token in old:
        for side in token.sides:
            known.update((hash_line(line), line) for line in side)
    keys = [token.key for token in old]
    places: list[tuple[int, int, list[bytes]]] = []
    for change in changes:
        at = _find_place(keys, change)
        lines = [_find_line(word, known) for word in change.put]
        if at is None or None in lines:
            return None
        places.append((at, at + len(change.gone), [line for line in lines if line is not None]))
    out: list[Token | bytes] = list(old)
    for start, stop, put in sorted(places, key=lambda place: place[0], reverse=True):
        out[start:stop] = put
    if any(isinstance(item, Token) and item.sides for item in out):
        return None
    return b"".join(item.line if isinstance(item, Token) else item for item in out)


def _find_place(keys: Sequence[str], change: SettledChange) -> int | None:
    """Find the tokens that go.

    By themselves where a conflict is among them, else with what is around them.
    """
    alone = any(key.startswith("conflict-") for key in change.gone)
    for before, after in (((), ()),) * alone + ((change.before, change.after),):
        wanted = [*before, *change.gone, *after]
        if not wanted:
            continue
        size = len(wanted)
        places = [at for at in range(len(keys) - size + 1) if keys[at : at + size] == wanted]
        if len(places) == 1:
            return places[0] + len(before)
    return None


def _make_word(line: bytes, mine: set[str], theirs: set[str]) -> str:
    key = hash_line(line)
    if key in theirs and (line.strip() or key not in mine):
        return f"={key}"
    try:
        return "+" + line.decode("utf-8")
    except UnicodeDecodeError:
        return "x" + line.hex()


def _find_line(word: str, known: dict[str, bytes]) -> bytes | None:
    if word.startswith("="):
        return known.get(word[1:])
    return bytes.fromhex(word[1:]) if word.startswith("x") else word[1:].encode()


def _hash_conflict(sides: Sequence[Sequence[bytes]]) -> str:
    """Return a key that is the same for the same lines on all sides.

    As ``git rerere`` sees them: no labels, no white space.
    """
    digest = hashlib.sha256()
    for side in sides:
        digest.update(b"|".join(b" ".join(line.split()) for line in side) + b"\0")
    return f"conflict-{digest.hexdigest()[:24]}"
