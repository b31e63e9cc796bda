"""What every release would do to a series, without a checkout.

>>> from decouple.flows.forecast import ForecastRequest, forecast_series
>>> found = forecast_series(ForecastRequest(project, "2.6", on=(f"here={source}",)))
>>> [verdict.status.value for verdict in found.columns[0].verdicts]
['clean', 'clean', 'clean']
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.flows.listener import QUIET, Listener
from decouple.flows.patch_regeneration import PatchRemaker
from decouple.patch.parse import Patch
from decouple.series import check
from decouple.series.forecast import Column, Forecast
from decouple.upstream.named_sources import open_named_source
from decouple.upstream.readers import OpenedSource


class ForecastRequest(Struct, frozen=True):
    """Which series, on what."""

    project: Path
    release: str | None = None
    """None: the newest series."""
    on: tuple[str, ...] = ()
    """Releases, or NAME=SOURCE with what ``check --source`` takes; empty: every release that has a manifest."""
    full: bool = False
    """Fetch full sources where the cache has none (large)."""
    offline: bool = False


def forecast_series(request: ForecastRequest, listener: Listener = QUIET) -> Forecast:
    """Return one column per release; one that cannot be read says why.

    Raises DecoupleError for a named source.
    """
    series = request.release or Checkout(request.project).find_newest_release()
    patches = check.load_series(request.project, series)
    wanted = request.on or Checkout(request.project).list_manifest_releases()
    columns = []
    workshop = PatchRemaker.of_project(request.project).with_merging(request.project, series, patches)
    listener.progress.start("releases", len(wanted))
    for word in wanted:
        columns.append(_make_column(request, series, word, patches, workshop))
        listener.progress.advance()
    listener.progress.finish()
    return Forecast(series, tuple(patches), tuple(columns))


def _make_column(
    request: ForecastRequest, series: str, word: str, patches: list[Patch], workshop: PatchRemaker
) -> Column:
    name, _, source = word.partition("=")
    name = name if source else Checkout(request.project).shorten_version(name)
    try:
        opened = _open_source(request, name, source, check.list_wanted_paths(patches) | workshop.recipe_paths)
    except DecoupleError as error:
        if source:
            raise
        return Column(name, "", missing=f"no source: {error.what}")
    # the relocation of its own release was generated from this very text
    generated = opened.partial or (name == series and not source)
    fits = check.check_series(
        patches,
        opened.source,
        partial=opened.partial,
        remade=workshop.bind_source(opened),
        lost=workshop.find_lost_changes,
        hidden=workshop.find_hidden_files,
        ruled=None if generated else workshop.bind_rules(opened),
    )
    return Column(name, opened.described, tuple(fits))


def _open_source(request: ForecastRequest, name: str, source: str, wanted: set[str]) -> OpenedSource:
    """Open the source asked for.

    Without one what the cache has in full, then (or with ``full``: last) the official wheel.

    The wheel's text is a few MiB; the archive of a release is hundreds, and a forecast looks at ten of them.
    """
    offline = request.offline
    ways = [(source, offline)] if source else [("auto", True), ("wheel", offline), ("auto", offline)]
    if request.full and not source:
        ways = [("auto", offline), ("wheel", offline)]
    for number, (word, cached) in enumerate(ways, start=1):
        try:
            return open_named_source(request.project, name, word, wanted, offline=cached)[0]
        except DecoupleError:
            if number == len(ways):
                raise
    raise AssertionError
