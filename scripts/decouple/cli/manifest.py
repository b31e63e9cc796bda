"""``decouple manifest``: show release manifests, and read their facts off published files."""

from __future__ import annotations

import argparse
import difflib

from decouple.base.errors import CHECK_FAILED, OK
from decouple.base.files import write_atomically
from decouple.base.paths import cache_dir, find_project
from decouple.cli.output import progress
from decouple.release.manifest import load, manifest_path, parse, release_of
from decouple.release.render import render
from decouple.upstream.download import Downloader
from decouple.upstream.fill import fill as read_facts


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
    fill.add_argument("release", nargs="+", help="for example 2.6")
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
        filled = read_facts(release, Downloader(cache_dir(), progress=report), known=known, progress=report)
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
