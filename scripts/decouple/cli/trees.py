"""Which tree a command that reads upstream's source looks at."""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.paths import find_project


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``--tree``, ``--source`` and ``--offline``."""
    parser.add_argument("--tree", type=Path, metavar="DIR", help="look at this tree instead of fetching the release")
    parser.add_argument("--source", default="auto", help="where to fetch from: auto, a provider, or local:PATH")
    parser.add_argument("--offline", action="store_true", help="only what the cache has")


def pristine(arguments: argparse.Namespace) -> Path:
    """The pristine tree of ``arguments.release``: ``--tree``, or what the upstream room has or fetches."""
    if arguments.tree is not None:
        tree: Path = arguments.tree
        if not tree.is_dir():
            raise UsageError(f"{tree}: no such folder", next_step="give the root of a PyTorch tree")
        return tree
    from decouple.cli import output
    from decouple.release.manifest import load_release
    from decouple.upstream.fetching import fetch

    manifest = load_release(find_project(), arguments.release)
    return fetch(manifest, arguments.source, offline=arguments.offline, progress=output.progress()).path
