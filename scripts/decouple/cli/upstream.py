"""``decouple upstream``: make commits for upstream, try the series on its main."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK, UsageError
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_source_option
from decouple.flows.upstream import UpstreamRequest, judge_patches, make_upstream_patches
from decouple.flows.upstream_watch import WatchRequest, watch_upstream


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands."""
    top = subparsers.add_parser("upstream")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    _add_patch(verbs)
    _add_watch(verbs)


def _add_patch(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "patch",
        help="one patch as commits that upstream could take, with a test and a pull request's text",
        description="Write the patch ID as mails for `git am` on upstream's own tree, with a test and the text of a "
        "pull request. Without ID: what each patch of the series is for upstream. Exit code 1, with the reason, where "
        "a patch is nothing for upstream.",
    )
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="a Decouple-Id of the series")
    parser.add_argument("--release", metavar="RELEASE", help="whose series (default: the newest whole one)")
    add_source_option(parser, name="--on", of="the tree of upstream's to cut it on")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="made anew (build/upstream/ID)")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.set_defaults(run=_run_patch)


def _add_watch(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "watch",
        help="the series on upstream's main of today, and what changed since the last run",
        description="Carry the series to upstream's main of today, without writing it: a verdict for each patch, what "
        "in the core still needs CUDA or ROCm, CUDA files that no rule places. Exit code 1 when --state has "
        "something else.",
    )
    parser.add_argument("--source", metavar="PATH", help="judge this: a folder, an archive or REPOSITORY@REVISION")
    parser.add_argument("--url", help="the repository to fetch from (default: upstream's)")
    parser.add_argument("--ref", help="what to fetch of it: a branch, a tag or a commit (default: main)")
    parser.add_argument(
        "--from-source", metavar="SOURCE", help="where the source of the series' own release comes from"
    )
    parser.add_argument(
        "--state", type=output.parse_output, metavar="FILE", help="what the last run came to; it is written anew"
    )
    parser.add_argument("--also", type=Path, metavar="FILE", help="words, macros and rules of this tree alone (TOML)")
    parser.add_argument("--report", type=output.parse_output, metavar="FILE", help="write the report, as Markdown")
    parser.set_defaults(run=_run_watch)


def _run_patch(arguments: argparse.Namespace) -> int:
    """Write and name the files, or print the list."""
    request = make_request(UpstreamRequest, arguments, source=arguments.on)
    if not request.id:
        for verdict in judge_patches(request, output.make_listener()):
            after = f", after {', '.join(verdict.needs)}" if verdict.needs else ""
            print(f"no     {verdict.refused}" if verdict.refused else f"ready  {verdict.id}{after}")
        return OK
    made = make_upstream_patches(request, output.make_listener())
    print(f"{request.id} on {made.described}: {len(made.commits)} commit{'s' if len(made.commits) > 1 else ''}")
    for commit in made.commits:
        back = (
            f"; moved by the series, edited in place: {', '.join(commit.brought_back)}" if commit.brought_back else ""
        )
        print(f"  {commit.title}; test: {commit.test.file}{back}")
    for path in made.files:
        print(path)
    return OK


def _run_watch(arguments: argparse.Namespace) -> int:
    """Judge and print; 1 when something changed."""
    for option in ("url", "ref"):
        if arguments.source and getattr(arguments, option):
            raise UsageError(f"--{option}: --source names the tree itself", next_step="leave one of the two out")
    result = watch_upstream(make_request(WatchRequest, arguments), output.make_listener())
    if arguments.report:
        print("\n".join(result.changes) or "nothing changed")
    else:
        print(result.report, end="")
    return CHECK_FAILED if result.changes else OK
