"""What every release would do to a series, without a checkout.

>>> from decouple.flows.forecast import Request, forecast
>>> found = forecast(Request(project, "2.6", on=(f"here={source}",)))
>>> [verdict.status.value for verdict in found.columns[0].verdicts]
['clean', 'clean', 'clean']
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.flows.listener import QUIET, Listener
from decouple.flows.remake import Workshop
from decouple.patch.parse import Patch
from decouple.series import check
from decouple.series.forecast import Column, Forecast
from decouple.upstream.readers import OpenedSource
from decouple.upstream.source_word import open_named


class Request(Struct, frozen=True):
    """Which series, on what."""

    project: Path
    release: str | None = None
    """None: the newest series."""
    on: tuple[str, ...] = ()
    """Releases, or NAME=SOURCE with what ``check --source`` takes; empty: every release that has a manifest."""
    full: bool = False
    """Fetch full sources where the cache has none (large)."""
    offline: bool = False


def forecast(request: Request, listener: Listener = QUIET) -> Forecast:
    """One column per release; one that cannot be read says why. Raises DecoupleError for a named source."""
    series = request.release or Checkout(request.project).newest()
    patches = check.load(request.project, series)
    wanted = request.on or Checkout(request.project).known()
    columns = []
    workshop = Workshop.of(request.project).beside(request.project, series, patches)
    listener.progress.start("releases", len(wanted))
    for word in wanted:
        columns.append(_column(request, word, patches, workshop))
        listener.progress.advance()
    listener.progress.finish()
    return Forecast(series, tuple(patches), tuple(columns))


def _column(request: Request, word: str, patches: list[Patch], workshop: Workshop) -> Column:
    name, _, source = word.partition("=")
    try:
        opened = _opened(request, name, source, check.wanted(patches) | workshop.reads)
    except DecoupleError as error:
        if source:
            raise
        return Column(name, "", missing=f"no source: {error.what}")
    found = check.check(
        patches,
        opened.source,
        partial=opened.partial,
        remade=workshop.on(opened),
        lost=workshop.lost,
        hidden=workshop.hidden,
    )
    return Column(name, opened.described, tuple(found))


def _opened(request: Request, name: str, source: str, wanted: set[str]) -> OpenedSource:
    """The source asked for; without one what the cache has in full, then (or with ``full``: last) the official wheel.

    The wheel's text is a few MiB; the archive of a release is hundreds, and a forecast looks at ten of them.
    """
    offline = request.offline
    ways = [(source, offline)] if source else [("auto", True), ("wheel", offline), ("auto", offline)]
    if request.full and not source:
        ways = [("auto", offline), ("wheel", offline)]
    for number, (word, cached) in enumerate(ways, start=1):
        try:
            return open_named(request.project, name, word, wanted, offline=cached)[0]
        except DecoupleError:
            if number == len(ways):
                raise
    raise AssertionError
