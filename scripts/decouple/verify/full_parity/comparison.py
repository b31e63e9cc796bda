"""Compare two offers.

They are sections of names, each equal, missing, extra or different; and the reasons of what differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Literal

from msgspec import Struct

from decouple.base import toml

_FILE = Path(__file__).with_name("reasons.toml")
Named = Mapping[str, Any] | Iterable[str]
"""Names, or names with values."""
What = Literal["missing", "different", "extra"]
NOTHING = "nothing to compare"


class ChangedName(Struct, frozen=True):
    """A name that both have, and what it is on each side."""

    name: str
    theirs: str
    ours: str


class SectionComparison(Struct, frozen=True):
    """One section. ``missing`` is what they have and we have not."""

    section: str
    equal: int
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    different: tuple[ChangedName, ...] = ()

    @property
    def total(self) -> int:
        """The number of names that the other side has."""
        return self.equal + len(self.missing) + len(self.different)


class Side(Struct, frozen=True):
    """One entry ``[[side]]``: a kind of torch with reasons of its own.

    Known by a package in it, by a distribution (the name of its metadata folder), by its version: by all that are
    given. Those of the side that it ``extends`` are its reasons too.
    """

    name: str
    what: str
    package: str = ""
    distribution: re.Pattern[str] | None = None
    version: re.Pattern[str] | None = None
    extends: str = ""

    def matches_torch(self, installed: Mapping[str, Mapping[str, Any]], version: str) -> bool:
        """Return whether a torch of ``version`` with these packages is of this kind."""
        infos = [PurePath(entry.get("info") or "").name for entry in installed.values()]
        return (
            (not self.package or self.package in installed)
            and (self.distribution is None or any(map(self.distribution.fullmatch, infos)))
            and (self.version is None or self.version.fullmatch(version) is not None)
        )


class Reason(Struct, frozen=True):
    """One entry ``[[reason]]``: sides, section, names, what of them, and why.

    A pattern matches a whole name.
    """

    sides: frozenset[str]
    section: re.Pattern[str]
    names: re.Pattern[str]
    what: frozenset[What]
    why: str


class _File(Struct, frozen=True):
    side: tuple[Side, ...]
    reason: tuple[Reason, ...] = ()


class AppliedReason(Struct, frozen=True):
    """A reason with the names that it explains."""

    why: str
    names: tuple[str, ...]


class JudgedSection(Struct, frozen=True):
    """A section with the reasons of its differences.

    ``unexplained`` are missing or different names without one. What is extra needs none: it takes nothing from anybody.
    But where the other side has nothing and ours something, that is the one name here: the other was not read.
    """

    compared: SectionComparison
    reasons: tuple[AppliedReason, ...]
    unexplained: tuple[str, ...]


class WholeTable(Struct, frozen=True):
    """All sections.

    ``unused`` are reasons of this kind of side that nothing met: they are out of date, so faults.
    """

    side: str
    sections: tuple[JudgedSection, ...]
    unused: tuple[str, ...]

    @property
    def total(self) -> int:
        """The number of names that the other side has."""
        return sum(section.compared.total for section in self.sections)

    @property
    def unexplained(self) -> int:
        """The number of missing or different names without a reason."""
        return sum(len(section.unexplained) for section in self.sections)

    @property
    def ok(self) -> bool:
        """Whether every difference has a reason, and every reason a difference.

        And the other side has a name at all.
        """
        return self.total > 0 and not self.unexplained and not self.unused


@cache
def load_reasons() -> _File:
    """Read ``reasons.toml``, which explains its keys."""
    return toml.read_own_table(_FILE, _File)


def compare_names(section: str, ours: Named, theirs: Named) -> SectionComparison:
    """Compare names, or names with values.

    >>> compare_names("API", {"f": "def(a)"}, {"f": "def()", "g": "def()"}).missing
    ('g',)
    """
    mine, wanted = _make_mapping(ours), _make_mapping(theirs)
    common = mine.keys() & wanted.keys()
    differ = sorted(name for name in common if mine[name] != wanted[name])
    return SectionComparison(
        section,
        len(common) - len(differ),
        tuple(sorted(wanted.keys() - mine.keys())),
        tuple(sorted(mine.keys() - wanted.keys())),
        tuple(ChangedName(name, f"{wanted[name]}", f"{mine[name]}") for name in differ),
    )


def judge_sections(found: Sequence[SectionComparison], side: str, known: Sequence[Reason] | None = None) -> WholeTable:
    """Explain each difference by the first reason that fits its name and its kind.

    The reasons are those of this kind of side, and of the one that it extends.
    """
    sides = {side, *(rule.extends for rule in load_reasons().side if rule.name == side and rule.extends)}
    ours = [reason for reason in (load_reasons().reason if known is None else known) if sides & reason.sides]
    met: set[Reason] = set()
    judged = []
    for section in found:
        here = [reason for reason in ours if reason.section.fullmatch(section.section)]
        told: dict[str, list[str]] = {}
        left = [NOTHING] if section.extra and not section.total else []
        different = tuple(each.name for each in section.different)
        for what, names in (("missing", section.missing), ("different", different), ("extra", section.extra)):
            for name in names:
                reason = next((each for each in here if what in each.what and each.names.fullmatch(name)), None)
                if reason:
                    met.add(reason)
                    told.setdefault(reason.why, []).append(name)
                elif what != "extra":
                    left.append(name)
        reasons = tuple(AppliedReason(why, tuple(names)) for why, names in told.items())
        judged.append(JudgedSection(section, reasons, tuple(left)))
    unused = tuple(f"{reason.section.pattern}: {reason.names.pattern}" for reason in ours if reason not in met)
    return WholeTable(side, tuple(judged), unused)


def find_side(installed: Mapping[str, Mapping[str, Any]], version: str) -> str:
    """Return which kind of side has these packages and this version.

    ``installed`` is what ``inside/dump.py`` says of each package, ``version`` is ``torch.__version__``; "other" where
    none is known.
    """
    return next((rule.name for rule in load_reasons().side if rule.matches_torch(installed, version)), "other")


def _make_mapping(given: Named) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else dict.fromkeys(given, "")
