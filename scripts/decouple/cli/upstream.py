"""``decouple upstream``: a patch as commits that upstream PyTorch could take."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import OK
from decouple.cli import output
from decouple.cli.request import make_request
from decouple.cli.source_word import add_source_option
from decouple.flows.upstream import UpstreamRequest, judge_patches, make_upstream_patches


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "upstream",
        description="Write the patch ID as mails for `git am` on upstream's own tree, with a test and the text of a "
        "pull request. Without ID: what each patch of the series is for upstream. Exit code 1, with the reason, where "
        "a patch is nothing for upstream.",
    )
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="a Decouple-Id of the series")
    parser.add_argument("--release", metavar="RELEASE", help="whose series (default: the newest whole one)")
    add_source_option(parser, name="--on", of="the tree of upstream's to cut it on")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="made anew (build/upstream/ID)")
    parser.add_argument("--offline", action="store_true", help="use only what is in the cache")
    parser.set_defaults(run=run_upstream)


def run_upstream(arguments: argparse.Namespace) -> int:
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
