"""``decouple rebase``: carry a series to another upstream release."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.base.files import is_stream, write_output
from decouple.cli import output
from decouple.cli.request import make_request, refuse_unread
from decouple.cli.source_word import add_source_option
from decouple.flows.listener import Listener
from decouple.flows.rebase import RebaseJudgement, RebaseRequest, RebaseResult, rebase_series
from decouple.flows.rebase_route import choose_way
from decouple.rebase import report
from decouple.rebase.rebase_state import find_next_step, is_generated
from decouple.rebase.report import CarriedLeg


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("rebase")
    parser.add_argument(
        "releases", nargs="*", metavar="[FROM] TO", help="e.g. 2.7.0, or 2.6 2.7.0 (FROM: the newest series)"
    )
    add_source_option(parser, of="where TO's source comes from")
    add_source_option(parser, name="--from-source", of="where FROM's source comes from")
    parser.add_argument(
        "--via",
        action="extend",
        type=lambda words: words.split(","),
        metavar="NAME[=SOURCE],…",
        help="carry it to these releases first, one from the other; each gets a series",
    )
    parser.add_argument("--debian-patches", action="store_true", help="lay Debian's own patches under TO")
    parser.add_argument(
        "--replace", action="store_true", help="write the series of a release for a local tree that is not its text"
    )
    parser.add_argument("--report", action="store_true", help="judge every patch, stop at none, write no series")
    parser.add_argument(
        "--history", type=Path, metavar="CLONE", help="a clone of upstream: name the commits behind a conflict"
    )
    parser.add_argument("--format", choices=("text", "markdown", "json", "github"), default="text")
    parser.add_argument(
        "--output", type=output.parse_output, help="write the report to this file as well as a summary here"
    )
    parser.add_argument("--reason", default="", metavar="WORDS", help="why it is settled so, kept with the resolution")
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--continue", dest="step", action="store_const", const="continue", help="the conflict is settled")
    step.add_argument("--skip", dest="step", action="store_const", const="skip", help="leave the stopped patch out")
    step.add_argument(
        "--restart",
        dest="step",
        action="store_const",
        const="restart",
        help="carry from the first patch again, by the recipes and rules of now; what was settled is replayed",
    )
    step.add_argument("--abort", dest="step", action="store_const", const="abort", help="forget the whole rebase")
    parser.set_defaults(run=run_rebase, parser=parser)


def run_rebase(arguments: argparse.Namespace) -> int:
    """Make one call: start, go on, or give up.

    1 while a patch waits for a person or --report found one that would.
    """
    _refuse_unread_options(arguments)
    for_program = arguments.format != "text" and not arguments.output  # which gets the report and nothing else
    listener = output.make_listener(for_program=for_program)
    request = choose_way(make_request(RebaseRequest, arguments), listener)
    once = for_program or bool(arguments.output and is_stream(arguments.output))  # nothing replaces what is there
    legs: list[CarriedLeg] = []

    def put_report() -> None:
        text = _format_report(arguments.format, legs)
        if arguments.output:
            write_output(arguments.output, text)
        else:
            print(text, end="")

    def take_verdicts(judged: RebaseJudgement) -> None:
        legs.append(CarriedLeg(judged.old, judged.new, judged.outcome.carried))
        if arguments.output:
            if not once:  # before a series is written: a file that cannot be ends the call
                put_report()
            print(f"{arguments.output}: {report.format_summary(judged.outcome.carried)}")
        elif not for_program:
            print(report.format_text(judged.outcome.carried), end="")

    try:
        result = rebase_series(request, listener, take_verdicts)
    except BaseException:
        if legs and once:
            with contextlib.suppress(OSError):  # what ended the way is told
                put_report()
        raise
    code = _tell_result(arguments, request.project, result, listener)
    if legs and once:
        put_report()
    return code


def _tell_result(arguments: argparse.Namespace, project: Path, result: RebaseResult, listener: Listener) -> int:
    """Say how the call ended; return its exit code."""
    if result.judged is None:
        listener.say("rebase: given up; the series that was under way is not written")
    elif arguments.report:
        return CHECK_FAILED if result.outcome.stops else OK
    elif result.stopped_at:
        listener.say(f"\nstopped at {result.stopped_at}; the conflict is in {result.tree}")
        stopped = result.outcome.stopped
        others = "--abort" if stopped and is_generated(stopped) else "--skip, --abort"
        listener.say(f"  next: {find_next_step(stopped)} (or {others})")
        return CHECK_FAILED
    else:
        _tell_written(project, result, listener)
    return OK


def _refuse_unread_options(arguments: argparse.Namespace) -> None:
    step = arguments.step
    if step == "abort":
        refuse_unread(arguments, {"step"}, "--abort forgets the rebase under way", "leave it out")
    elif step:
        read = {"step", "history", "format", "output", *(["reason"] if step != "restart" else [])}
        why = f"--{step} goes on with the rebase as it was started"
        refuse_unread(arguments, read, why, "leave it out, or `decouple rebase --abort` and start anew with it")
    elif arguments.reason:
        raise UsageError("--reason: is kept with what --continue or --skip settles", next_step="leave it out")
    elif arguments.report and arguments.replace:
        raise UsageError("--replace: --report writes no series", next_step="leave one of them out")


def _tell_written(project: Path, result: RebaseResult, listener: Listener) -> None:
    assert result.series
    count, release = len(result.series.bodies), result.release
    listener.say(f"\nwrote {count} patches and series/{release}: {len(result.series.lines)} patches in all")
    if result.resolutions:
        listener.say(f"resolutions are kept in {result.resolutions.relative_to(project)}; commit them with the series")
    listener.say(f"  next: decouple lint {release}, then decouple apply {release}")


def _format_report(kind: str, legs: Sequence[CarriedLeg]) -> str:
    """Return one report of all legs of the way that were judged, in the asked format."""
    if kind == "json":
        return report.format_json(legs)
    if kind == "markdown":
        return "\n".join(report.format_markdown(leg.carried, leg.old, leg.new) for leg in legs)
    if kind == "github":
        return "".join(f"{line}\n" for leg in legs for line in report.format_ci_annotations(leg.carried))
    titles = [f"{leg.old} to {leg.new}\n" if len(legs) > 1 else "" for leg in legs]
    return "\n".join(title + report.format_text(leg.carried) for title, leg in zip(titles, legs, strict=True))
