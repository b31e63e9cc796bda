"""``decouple branch``: the whole series as a git branch, and back."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.checkout import SeriesPlaces
from decouple.base.errors import OK, UsageError
from decouple.base.git import Repository
from decouple.cli.patches import print_written
from decouple.cli.stack_words import open_stack, parse_release
from decouple.cli.verbs import add_verb
from decouple.stack import branch
from decouple.upstream.manifests import load_release


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(subparsers, "branch", _run_branch)
    parser.add_argument("--repo", type=Path, help="the repository (default: the applied tree)")
    parser.add_argument("--name", help="the branch, with --back also a commit (default: series-RELEASE)")
    parser.add_argument("--base", help="the commit it stands on (default: the release's)")
    parser.add_argument("--force", action="store_true", help="replace the branch")
    parser.add_argument("--back", action="store_true", help="instead: write the branch's commits back to patches/")
    parser.add_argument("--drop", action="store_true", help="with --back: take patches without a commit out")


def _run_branch(arguments: argparse.Namespace) -> int:
    places, words = parse_release(arguments)
    if words:
        raise UsageError(f"branch takes no {words[0]!r}", next_step="see `decouple branch --help`")
    if arguments.drop and not arguments.back:
        raise UsageError("--drop: takes patches out of the series", next_step="add --back")
    if arguments.force and arguments.back:
        raise UsageError("--force: replaces the branch, and --back writes to patches/", next_step="leave one out")
    repository, base = _find_repository(arguments, places)
    if arguments.back:
        return _write_back(arguments, places, repository, base)
    made = branch.make_branch(
        places, repository, arguments.name or f"series-{places.release}", base, force=arguments.force
    )
    print(f"branch {made.name} in {made.repository}: {len(made.patches)} commits on {made.base[:12]}")
    return OK


def _write_back(arguments: argparse.Namespace, places: SeriesPlaces, repository: Repository, base: str) -> int:
    with open_stack(arguments, most=0) as (stack, _):
        revision = arguments.name or f"series-{places.release}"
        written = branch.import_branch(stack, repository, revision, base, drop=arguments.drop)
        print_written(written)
        if written.files:
            print(f"`decouple apply {places.release}` brings the applied tree to it")
    return OK


def _find_repository(arguments: argparse.Namespace, places: SeriesPlaces) -> tuple[Repository, str]:
    repository = branch.open_repository(arguments.repo or places.tree)
    if arguments.base:
        return repository, arguments.base
    if arguments.repo is None:
        return repository, "refs/decouple/base"
    assert places.project
    manifest = load_release(places.project, places.release)
    return repository, next(
        (name for name in (manifest.commit, manifest.tag) if name and repository.resolve_commit(name)), manifest.tag
    )
