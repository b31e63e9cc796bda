"""``decouple forecast``: what every release would do to the series."""

from __future__ import annotations

import argparse

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.files import write_output
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.flows import forecast as flow
from decouple.series import forecast
from decouple.series.check import Fit
from decouple.upstream.source_specifier import normalize_word


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "forecast",
        description="Judge every patch of a series on every release that has a manifest, and on any other source named "
        "with --on, from whatever can be reached: full trees, or the Python files and headers of official wheels.",
    )
    parser.add_argument("release", nargs="?", help="the series to judge (default: the newest)")
    parser.add_argument(
        "--on",
        action="append",
        type=_normalize_place,
        metavar="RELEASE|NAME=SOURCE",
        help="only these; a SOURCE is what `check --source` takes",
    )
    parser.add_argument("--html", type=output.parse_output, help="write the matrix as a self-contained page")
    parser.add_argument("--json", type=output.parse_output, help="write it as JSON")
    parser.add_argument("--full", action="store_true", help="fetch full sources where the cache has none (large)")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit 1 when a patch would conflict somewhere, and when no release could be judged, or not each of --on",
    )
    parser.set_defaults(run=run_forecast)


def _normalize_place(word: str) -> str:
    name, equals, source = word.partition("=")
    if equals and not (name and source):  # "" would be the current folder
        raise UsageError(f"--on {word}: no {'source' if name else 'name'}", next_step="--on 2.7, or --on main=PATH")
    return f"{name}={normalize_word(source)}" if equals else word


def run_forecast(arguments: argparse.Namespace) -> int:
    """Judge and print; with --strict 1 for a conflict, ambiguity or missing target.

    Also where there was nothing to judge: a release that --on names is one that somebody waits for.
    """
    request = make_request(flow.ForecastRequest, arguments)
    result = flow.forecast_series(request, output.make_listener())
    print("\n".join(forecast.render_text(result)))
    for column in result.columns:
        print(
            f"{column.release}: {forecast.describe_column(column)}"
            + (f" [{column.described}]" if column.described else "")
        )
    if line := forecast.name_other_way(result):
        print(line)
    print(forecast.render_legend())
    for path, make in ((arguments.html, forecast.render_html), (arguments.json, forecast.render_json)):
        if path:
            write_output(path, make(result))
            print(path)
    judged = [column.is_judged for column in result.columns]
    good = all(judged) if arguments.on else any(judged)
    good = good and result.worst not in (Fit.CONFLICT, Fit.GONE, Fit.AMBIGUOUS)
    return CHECK_FAILED if arguments.strict and not good else OK
