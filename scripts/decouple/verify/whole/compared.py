"""Two offers compared: sections of names, each equal, missing, extra or different; and the reasons of what differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from decouple.base import toml

_FILE = Path(__file__).with_name("reasons.toml")
Named = Mapping[str, Any] | Iterable[str]
"""Names, or names with values."""


class Changed(Struct, frozen=True):
    """A name that both have, and what it is on each side."""

    name: str
    theirs: str
    ours: str


class Compared(Struct, frozen=True):
    """One section. ``missing`` is what they have and we have not."""

    section: str
    equal: int
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    different: tuple[Changed, ...] = ()


class Side(Struct, frozen=True):
    """One entry ``[[side]]``: a kind of torch with reasons of its own, known by a package in it, or by its version."""

    name: str
    what: str
    package: str = ""
    version: re.Pattern[str] | None = None


class Reason(Struct, frozen=True):
    """One entry ``[[reason]]``: of which sides' sections, which names (whole), and why."""

    sides: frozenset[str]
    section: re.Pattern[str]
    names: re.Pattern[str]
    why: str


class _File(Struct, frozen=True):
    side: tuple[Side, ...]
    reason: tuple[Reason, ...] = ()


class Given(Struct, frozen=True):
    """A reason with the names that it explains."""

    why: str
    names: tuple[str, ...]


class JudgedSection(Struct, frozen=True):
    """A section with the reasons of its differences; ``unexplained`` are missing or different names without one.

    What is extra needs none: it takes nothing from anybody.
    """

    compared: Compared
    reasons: tuple[Given, ...]
    unexplained: tuple[str, ...]


class WholeTable(Struct, frozen=True):
    """All sections. ``unused`` are reasons of this kind of side that nothing met: they are out of date, so faults."""

    side: str
    sections: tuple[JudgedSection, ...]
    unused: tuple[str, ...]

    @property
    def unexplained(self) -> int:
        """How many missing or different names have no reason."""
        return sum(len(one.unexplained) for one in self.sections)

    @property
    def ok(self) -> bool:
        """Everything that differs has its reason, and every reason something that differs."""
        return not self.unexplained and not self.unused


@cache
def rules() -> _File:
    """The parsed ``reasons.toml``, which explains its keys."""
    return toml.read(_FILE, _File, mend=f"git checkout {_FILE}")


def compare(section: str, ours: Named, theirs: Named) -> Compared:
    """Names, or names with values, compared.

    >>> compare("API", {"f": "def(a)"}, {"f": "def()", "g": "def()"}).missing
    ('g',)
    """
    mine, wanted = _mapping(ours), _mapping(theirs)
    common = mine.keys() & wanted.keys()
    differ = sorted(name for name in common if mine[name] != wanted[name])
    return Compared(
        section,
        len(common) - len(differ),
        tuple(sorted(wanted.keys() - mine.keys())),
        tuple(sorted(mine.keys() - wanted.keys())),
        tuple(Changed(name, f"{wanted[name]}", f"{mine[name]}") for name in differ),
    )


def judge(found: Sequence[Compared], side: str, known: Sequence[Reason] | None = None) -> WholeTable:
    """With the reasons of a kind of side: the first that fits a name explains it."""
    ours = [one for one in (rules().reason if known is None else known) if side in one.sides]
    met: set[Reason] = set()
    judged = []
    for one in found:
        here = [reason for reason in ours if reason.section.fullmatch(one.section)]
        told: dict[str, list[str]] = {}
        left = []
        asked = [*one.missing, *(each.name for each in one.different)]
        for number, name in enumerate([*asked, *one.extra]):
            reason = next((each for each in here if each.names.fullmatch(name)), None)
            if reason:
                met.add(reason)
                told.setdefault(reason.why, []).append(name)
            elif number < len(asked):
                left.append(name)
        reasons = tuple(Given(why, tuple(names)) for why, names in told.items())
        judged.append(JudgedSection(one, reasons, tuple(left)))
    unused = tuple(f"{one.section.pattern}: {one.names.pattern}" for one in ours if one not in met)
    return WholeTable(side, tuple(judged), unused)


def side_of(packages: Iterable[str], version: str) -> str:
    """Which kind of side has these packages and this ``torch.__version__``; "other" where none is known."""
    there = set(packages)
    for one in rules().side:
        if one.package in there or (one.version and one.version.fullmatch(version)):
            return one.name
    return "other"


def _mapping(given: Named) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else dict.fromkeys(given, "")
