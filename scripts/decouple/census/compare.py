"""Compare two censuses of one release, before and after the series.

The result is one list that says what became of each coupling.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from decouple.census.finding import IN_BUILD, Census, Finding

# What a bar of the report counts: everything that ties the core to the vendor, device dispatch left out.
COUPLINGS = ("inter-file", "macro", "include", "name", "python", "build")


class Removal(Struct, frozen=True):
    """The lines' text that one patch removes from one file."""

    patch: str
    removed: tuple[str, ...]


class ModuleCount(Struct, frozen=True):
    """Couplings of one module in the core.

    The last two fields count those that need the vendor at compile time.
    """

    module: str
    before: int
    after: int | None
    needing_vendor_before: int
    needing_vendor_after: int | None


class CensusComparison(Struct, frozen=True):
    """The report's content. ``after`` is None when the series is not applied."""

    release: str
    before: Census
    after: Census | None
    findings: tuple[Finding, ...]
    """Those of before, as the tree after the series has them or with what cut them.

    Then those that only the tree after the series has (verdict new).
    """

    def count_modules(self) -> list[ModuleCount]:
        """Return the table of the terminal and of the bars, by module."""
        before = Counter(finding.module for finding in self.before.findings if is_coupling(finding))
        needing_before = Counter(finding.module for finding in self.before.findings if needs_vendor_in_build(finding))
        after = Counter(finding.module for finding in self.after.findings if in_core(finding)) if self.after else None
        needing_after = Counter(finding.module for finding in self.after.needing_vendor) if self.after else None
        names = sorted(set(before) | set(after or ()))
        return [
            ModuleCount(
                module,
                before[module],
                after[module] if after is not None else None,
                needing_before[module],
                needing_after[module] if needing_after else (0 if needing_after is not None else None),
            )
            for module in names
        ]

    @property
    def vendor(self) -> str:
        """Whose couplings these are: the word of a taxonomy."""
        return self.before.vendor

    @property
    def key_before(self) -> int:
        """In-core couplings that need the vendor at compile time, before."""
        return len(self.before.needing_vendor)

    @property
    def key_after(self) -> int | None:
        """The same after the series; the aim is 0."""
        return len(self.after.needing_vendor) if self.after else None


def is_coupling(finding: Finding) -> bool:
    """Return whether the finding ties something to the vendor.

    Dispatch and mentions do not, nor does a compiler macro.
    """
    return finding.category in COUPLINGS and (finding.category != "macro" or finding.needs_vendor)


def in_core(finding: Finding) -> bool:
    """Return whether it is a coupling outside the relocated tree."""
    return is_coupling(finding) and finding.verdict != "moved"


def needs_vendor_in_build(finding: Finding) -> bool:
    """Return whether it is a coupling of the key number, moved or not judged yet."""
    return finding.needs_vendor and finding.stage in IN_BUILD and finding.verdict not in ("stays", "moved")


def compare_censuses(
    release: str, before: Census, after: Census | None, edits: Mapping[str, Sequence[Removal]]
) -> CensusComparison:
    """Join two censuses by id.

    A finding of both trees is told as the later one has it: only there its lines, and whether they need the vendor, are
    of the text that the key number is of. ``edits`` tells for each path of the pristine tree which patches change that
    file, wherever it stands by then, and what they remove.
    """
    if after is None:
        return CensusComparison(release, before, None, before.findings)
    later = {finding.id: finding for finding in after.findings}
    joined = []
    for finding in before.findings:
        current = later.pop(finding.id, None)
        joined.append(current or replace(finding, verdict="cut", reason=_explain_cut(finding, edits)))
    new = [
        replace(finding, verdict="new" if finding.verdict == "open" else finding.verdict) for finding in later.values()
    ]
    return CensusComparison(release, before, after, (*joined, *new))


def _explain_cut(finding: Finding, edits: Mapping[str, Sequence[Removal]]) -> str:
    path_edits = edits.get(finding.origin, ())
    words = finding.symbol.split("+") if finding.category == "macro" else [finding.symbol.strip('"')]
    removing = [edit.patch for edit in path_edits if any(word in line for word in words for line in edit.removed)]
    names = list(dict.fromkeys(removing or [edit.patch for edit in path_edits]))
    return f"cut by {', '.join(names)}" if names else "gone: the applied tree has no such place, and no patch says so"
