"""``decouple forecast``: what every release would do to the series."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from decouple.base.errors import CHECK_FAILED, OK, DecoupleError

if TYPE_CHECKING:
    from decouple.patch.parse import Patch
    from decouple.series.forecast import Column
    from decouple.upstream.readers import Opened


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "forecast",
        help="a patch x release matrix, without a checkout",
        description="Judge every patch of a series on every release that has a manifest, and on any other source named "
        "with --on, from whatever can be reached: full trees, or the Python files and headers of official wheels.",
    )
    parser.add_argument("release", nargs="?", help="the series to judge (default: the newest)")
    parser.add_argument(
        "--on",
        action="append",
        metavar="RELEASE|NAME=SOURCE",
        help="only these; a SOURCE is what `check --source` takes",
    )
    parser.add_argument("--html", type=Path, help="write the matrix as a self-contained page")
    parser.add_argument("--json", type=Path, help="write it as JSON")
    parser.add_argument("--full", action="store_true", help="fetch full sources where the cache has none (large)")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a patch would conflict somewhere")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Judge and print; with --strict 1 when a patch conflicts, is ambiguous, or its target is gone."""
    from packaging.version import Version

    from decouple.base.files import write_atomically
    from decouple.base.paths import find_project
    from decouple.cli.output import progress
    from decouple.release.manifest import known_releases
    from decouple.series import check, forecast
    from decouple.stack.engine import releases

    project = find_project()
    series = arguments.release or max(releases(project), key=Version)
    patches = check.load(project, series)
    manifests = known_releases(project)
    columns = []
    bar = progress()
    wanted = arguments.on or manifests
    bar.start("releases", len(wanted))
    for word in wanted:
        columns.append(_column(project, word, patches, full=arguments.full, offline=arguments.offline))
        bar.advance()
    bar.finish()
    result = forecast.Forecast(series, tuple(patches), tuple(columns))
    print("\n".join(forecast.text_table(result)))
    for column in result.columns:
        print(f"{column.release}: {forecast.tally(column)}" + (f" [{column.described}]" if column.described else ""))
    print(
        ". clean  ~ offset  = upstream has it  ? ambiguous  X conflict  G target gone  "
        "blank: not seen  in brackets: judged on part of its files"
    )
    for path, make in ((arguments.html, forecast.as_html), (arguments.json, forecast.as_json)):
        if path:
            write_atomically(path, make(result))
            print(path)
    bad = result.worst in (check.Status.CONFLICT, check.Status.GONE, check.Status.AMBIGUOUS)
    return CHECK_FAILED if arguments.strict and bad else OK


def _column(project: Path, word: str, patches: list[Patch], *, full: bool, offline: bool) -> Column:
    from decouple.series import check, forecast

    name, _, source = word.partition("=")
    try:
        opened = _opened(project, name, source, check.wanted(patches), full=full, offline=offline)
    except DecoupleError as error:
        if source:
            raise
        return forecast.Column(name, "", missing=f"no source: {error.what}")
    verdicts = check.check(patches, opened.source, partial=opened.partial)
    return forecast.Column(name, opened.described, tuple(verdicts))


def _opened(project: Path, name: str, source: str, wanted: set[str], *, full: bool, offline: bool) -> Opened:
    """The source asked for; without one what the cache has in full, then (or with ``full``: last) the official wheel.

    The wheel's text is a few MiB; the archive of a release is hundreds, and a forecast looks at ten of them.
    """
    from decouple.upstream.source_word import open_named

    ways = [(source, offline)] if source else [("auto", True), ("wheel", offline), ("auto", offline)]
    if full and not source:
        ways = [("auto", offline), ("wheel", offline)]
    for number, (word, cached) in enumerate(ways, start=1):
        try:
            return open_named(project, name, word, wanted, offline=cached)[0]
        except DecoupleError:
            if number == len(ways):
                raise
    raise AssertionError
