"""What would become of every patch of a series on a source, without a checkout.

>>> from decouple.flows.check import Check, check
>>> found = check(Check(project, "2.6", source=str(source)))
>>> [verdict.status.value for verdict in found.verdicts], found.applies(strict=True)
(['clean', 'clean', 'clean'], True)
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.flows.listener import QUIET, Listener
from decouple.flows.remake import Workshop
from decouple.flows.source import OfRelease
from decouple.series import check as judging
from decouple.series.check import Fit, PatchFit
from decouple.upstream.source_word import open_named, read_series


class Check(OfRelease, frozen=True):
    """Which series, on which source."""

    debian_patches: bool = False
    under: Path | None = None
    """A folder with a series that is applied first."""


class Checked(Struct, frozen=True):
    """The source in words, and a verdict per patch."""

    described: str
    verdicts: tuple[PatchFit, ...]

    def applies(self, *, strict: bool = False) -> bool:
        """Whether the series would apply; ``strict``: at the very lines, and in one way only."""
        fine = {Fit.CLEAN, Fit.UNSEEN} | (set() if strict else judging.APPLIES)
        return all(verdict.status in fine for verdict in self.verdicts)


def check(request: Check, listener: Listener = QUIET) -> Checked:
    """Judge every patch in memory. Raises DecoupleError, UsageError for a source that there is not."""
    series = judging.load(request.project, request.release)
    under = read_series(request.under) if request.under else []
    workshop = Workshop.of(request.project)
    opened, theirs = open_named(
        request.project,
        request.release,
        request.source,
        judging.wanted([*under, *series]) | workshop.reads,
        offline=request.offline,
        debian_patches=request.debian_patches,
        progress=listener.progress,
    )
    remade = workshop.on(opened)
    verdicts = judging.check(series, opened.source, under=[*theirs, *under], partial=opened.partial, remade=remade)
    return Checked(opened.described, tuple(verdicts))
