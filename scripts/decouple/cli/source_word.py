"""Add ``--source``, with the same words for every command.

Here are also the options of those that read upstream's pristine source.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from decouple.upstream.source_specifier import normalize_word


def add_source_option(
    parser: argparse.ArgumentParser, *, name: str = "--source", of: str = "where the source comes from"
) -> None:
    """Add the option; a path becomes ``local:`` and the whole path."""
    words = (
        "auto, a provider of the manifest (debian, github, git, wheel), a folder, an archive, a bare repository, or "
    )
    parser.add_argument(
        name, default="auto", type=normalize_word, metavar="SOURCE", help=f"{of}: {words}REPOSITORY@REVISION (auto)"
    )


def add_pristine_options(parser: argparse.ArgumentParser) -> None:
    """Add `flows.pristine` options: release, ``--tree``, ``--source``, ``--offline``."""
    parser.add_argument("release", help="a release that series/ has, such as 2.6")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="look at this tree instead of fetching the release")
    add_source_option(parser)
    parser.add_argument("--offline", action="store_true", help="only what the cache has")
