"""``decouple manifest``: show release manifests, and read their facts off published files."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.base.paths import cache_dir, find_project
from decouple.base.progress import Progress
from decouple.cli.output import progress
from decouple.release.manifest import Manifest, is_released, load, manifest_path, parse, release_of
from decouple.release.render import render
from decouple.upstream.download import Downloader
from decouple.upstream.fill import Filled
from decouple.upstream.fill import fill as read_facts
from decouple.upstream.fill_other import candidate_tag, of_repository, of_tree
from decouple.upstream.providers.github import GITHUB


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``manifest fill``."""
    command = subparsers.add_parser("manifest")
    verbs = command.add_subparsers(dest="verb", metavar="VERB", required=True)
    fill = verbs.add_parser(
        "fill",
        help="read the facts off PyPI and Debian; lists what differs, writes with --write",
        description="Read the facts of a release off published files (official wheel by HTTP range, Debian's signed "
        "index, NVIDIA's wheels) and compare them with series/<release>.toml. This is the only writer of that file. "
        "Exit code 1 when they differ and --write is not given.",
    )
    fill.add_argument("release", nargs="+", help="for example 2.6; also 2.7.0rc3, main-2026-11-20, acme-2.7")
    fill.add_argument("--tree", type=Path, metavar="DIR", help="what is no release: read the facts off this tree")
    fill.add_argument("--git", metavar="URL", help="what is no release: read them off --ref of this repository")
    fill.add_argument("--ref", help="tag, branch or commit (default: the tag of a release candidate)")
    fill.add_argument("--write", action="store_true", help="write series/<release>.toml")
    fill.set_defaults(run=run_fill)


def run_fill(arguments: argparse.Namespace) -> int:
    """Compare or write manifests. Raises DecoupleError."""
    project, code, report = find_project(), OK, progress()
    for name in arguments.release:
        release = release_of(name)
        path = manifest_path(project, release)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        known = load(path) if old else None
        filled = _facts(arguments, release, known, report)
        text = render(filled.manifest)
        assert parse(text, path) == filled.manifest
        for remark in filled.remarks:
            print(f"{path.name}: {remark}")
        if text == old:
            print(f"{path.name}: as published")
        elif arguments.write:
            write_atomically(path, text)
            print(f"{path.name}: written")
        else:
            shown = difflib.unified_diff(old.splitlines(), text.splitlines(), str(path), "as published", lineterm="")
            print("\n".join(shown))
            code = CHECK_FAILED
    return code


def _facts(arguments: argparse.Namespace, release: str, known: Manifest | None, report: Progress) -> Filled:
    """Off published files for an upstream release, off a tree or a repository for anything else."""
    if arguments.tree:
        return Filled(of_tree(release, arguments.tree.resolve()), ())
    if arguments.git or not is_released(release):
        ref = arguments.ref or candidate_tag(release)
        return Filled(of_repository(release, arguments.git or f"{GITHUB}.git", ref), ())
    return read_facts(release, Downloader(cache_dir(), progress=report), known=known, progress=report)
