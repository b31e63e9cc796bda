"""The records of the census: one per coupling, with an id stable across releases."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

CATEGORIES = ("inter-file", "macro", "include", "name", "dispatch", "mention", "python", "build")
"""inter-file: the file as a whole is CUDA's; macro: a conditional or a use of a CUDA macro; include: of a CUDA header;
name: CUDA-only code by name; dispatch: legitimate device dispatch; mention: a name of the core's own with the word in
it; python: reaching a CUDA binding through torch._C; build: a branch or line of a build file."""

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
    """Lines that exist only with CUDA (macro, build), else 1."""
    count: int = 1
    """How often the symbol stands in the file, for findings that are one per symbol and file."""
    needs_cuda: bool = False
    """Whether this place compiles differently with CUDA configured, taken by itself."""
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
    needs_cuda: bool
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

    @property
    def in_core(self) -> list[Finding]:
        """The findings outside the relocated tree."""
        return [finding for finding in self.findings if finding.verdict != "moved"]

    @property
    def needing_cuda(self) -> list[Finding]:
        """The findings of the key number.

        They are in the core, in stage 1's build, and different with CUDA configured.
        """
        return [
            finding
            for finding in self.in_core
            if finding.needs_cuda and finding.stage in IN_BUILD and finding.verdict != "stays"
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
