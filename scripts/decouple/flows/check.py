"""What would become of every patch of a series on a source, without a checkout.

>>> from decouple.flows.check import CheckRequest, check_series
>>> found = check_series(CheckRequest(project, "2.6", source=str(source)))
>>> [verdict.status.value for verdict in found.verdicts], found.can_apply(strict=True)
(['clean', 'clean', 'clean'], True)
"""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import UsageError
from decouple.flows.listener import QUIET, Listener
from decouple.flows.patch_regeneration import PatchRemaker
from decouple.flows.release_request import ReleaseRequest
from decouple.series import check as judging
from decouple.series.check import Fit, PatchFit
from decouple.series.dependencies import find_dependencies
from decouple.upstream.named_sources import open_named_source, read_series


class CheckRequest(ReleaseRequest, frozen=True):
    """Which series, on which source."""

    debian_patches: bool = False
    under: Path | None = None
    """A folder with a series that is applied first."""


class SeriesCheck(Struct, frozen=True):
    """The source in words, and a verdict per patch."""

    described: str
    verdicts: tuple[PatchFit, ...]

    def can_apply(self, *, strict: bool = False) -> bool:
        """Return whether the series applies; ``strict``: at exact lines, in one way only."""
        fine = {Fit.CLEAN, Fit.UNSEEN} | (set() if strict else judging.APPLIES)
        return all(verdict.status in fine for verdict in self.verdicts)


def check_series(request: CheckRequest, listener: Listener = QUIET) -> SeriesCheck:
    """Judge every patch in memory.

    Raises DecoupleError, UsageError for a source that does not exist.
    """
    release = _choose_series(request)
    if release != request.release:
        listener.say(f"series: {request.release} has none of its own; judged is the one of {release}")
    if request.under and not (request.under / "series").is_file():
        raise UsageError(
            f"--under {request.under}: no file series in it",
            next_step="name a folder with patches and their series, as `decouple export FOLDER` writes one",
        )
    series = judging.load_series(request.project, release)
    under = read_series(request.under) if request.under else []
    workshop = PatchRemaker.of_project(request.project)
    if release != request.release:
        workshop = workshop.with_merging(request.project, release, series)
    opened, theirs = open_named_source(
        request.project,
        request.release,
        request.source,
        judging.list_wanted_paths([*under, *series]) | workshop.recipe_paths,
        offline=request.offline,
        debian_patches=request.debian_patches,
        progress=listener.progress,
    )
    verdicts = judging.check_series(
        series,
        opened.source,
        under=[*theirs, *under],
        partial=opened.partial,
        remade=workshop.bind_source(opened),
        lost=workshop.find_lost_changes,
        hidden=workshop.find_hidden_files,
        ruled=workshop.bind_rules(opened),
    )
    return SeriesCheck(opened.described, tuple(verdicts))


def list_dependencies(request: CheckRequest, listener: Listener = QUIET) -> dict[str, tuple[str, ...]]:
    """Map each patch of the series to the earlier ones that it needs.

    Raises DecoupleError, UsageError for a source that there is not, or that has only part of the tree.
    """
    series = judging.load_series(request.project, request.release)
    opened, _ = open_named_source(
        request.project,
        request.release,
        request.source,
        judging.list_wanted_paths(series),
        offline=request.offline,
        progress=listener.progress,
    )
    if opened.partial:
        raise UsageError(
            f"--depends: {opened.described} has part of the tree only, too little to tell what patches need",
            next_step="name a whole source with --source",
        )
    words = ["decouple", "check", request.release, "--source", request.source]
    return find_dependencies(series, opened.source, command=shlex.join(words))


def _choose_series(request: CheckRequest) -> str:
    """Return the series to judge.

    The release's own, or the one that ``apply`` would carry to it.
    """
    checkout = Checkout(request.project)
    if checkout.locate_series(request.release).is_file() or not checkout.locate_manifest(request.release).is_file():
        return request.release
    from decouple.flows.carry import find_nearest  # here: a release with a series does not pay for it

    return find_nearest(request.project, request.release)
