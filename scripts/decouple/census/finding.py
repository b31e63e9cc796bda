"""The records of the census: one per coupling, with an id stable across releases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

CATEGORIES = ("inter-file", "macro", "include", "name", "dispatch", "mention", "python", "build")
"""inter-file: the file as a whole is the vendor's; macro: a conditional or a use of a macro of the vendor's; include:
of a header of the vendor's; name: code of the vendor's alone, by name; dispatch: legitimate device dispatch; mention: a
name of the core's own with the word in it; python: reaching a binding of the vendor's through torch._C; build: a branch
or line of a build file."""

IN_BUILD = ("stage-1", "codegen", "build")
"""The stages whose couplings can be in the key number; the others: stage-2, python, test, neither."""


class RawFinding(Struct, frozen=True):
    """A finding of a scanner, before it has a module, a stage and a verdict."""

    category: str
    symbol: str
    path: str
    line: int
    end_line: int
    lines: int
    """Lines that exist only with the vendor (macro, build), else 1."""
    count: int = 1
    """How often the symbol stands in the file, for findings that are one per symbol and file."""
    needs_vendor: bool = False
    """Whether this place compiles differently with the vendor configured, taken by itself."""
    detail: str = ""


class Finding(Struct, frozen=True):
    """A finding with everything the report says about it."""

    id: str
    category: str
    symbol: str
    path: str
    origin: str
    """The path before relocation; the same as ``path`` if the file did not move."""
    line: int
    end_line: int
    lines: int
    count: int
    needs_vendor: bool
    detail: str
    module: str
    stage: str
    verdict: str
    """moved, cut, stays or open."""
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the record for the report; keys in the order of the fields."""
        return asdict(self)


class Census(Struct, frozen=True):
    """One tree's findings, sorted by origin, line and category."""

    tree: str
    findings: tuple[Finding, ...]
    files: int
    """Files looked at."""
    vendor: str = "cuda"
    """Whose couplings these are: the word of a taxonomy."""
    title: str = "CUDA"
    """The vendor's name as a person writes it."""

    @property
    def in_core(self) -> list[Finding]:
        """The findings outside the relocated tree."""
        return [finding for finding in self.findings if finding.verdict != "moved"]

    @property
    def needing_vendor(self) -> list[Finding]:
        """The findings of the key number.

        They are in the core, in stage 1's build, and different with the vendor configured.
        """
        return [
            finding
            for finding in self.in_core
            if finding.needs_vendor and finding.stage in IN_BUILD and finding.verdict != "stays"
        ]


def identify_findings(findings: Sequence[tuple[RawFinding, str]]) -> list[str]:
    """Return an id for each (finding, origin path): twelve hex digits.

    The id depends on what the finding is, not on the line it stands on. Equal findings of one file are told apart by
    their order in it, so that a census of the next release gives the same ids to what did not change.
    """
    occurrences: Counter[tuple[str, str, str]] = Counter()
    ids = []
    for raw, origin in findings:
        key = (raw.category, origin, raw.symbol)
        occurrences[key] += 1
        text = "\0".join((*key, str(occurrences[key])))
        ids.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12])
    return ids
