"""``--source``: the same words for every command."""

from __future__ import annotations

import argparse

from decouple.upstream.words import canonical


def source_option(
    parser: argparse.ArgumentParser, *, name: str = "--source", of: str = "where the source comes from"
) -> None:
    """Add the option; a path becomes ``local:`` and the whole path."""
    words = (
        "auto, a provider of the manifest (debian, github, git, wheel), a folder, an archive, a bare repository, or "
    )
    parser.add_argument(
        name, default="auto", type=canonical, metavar="SOURCE", help=f"{of}: {words}REPOSITORY@REVISION (auto)"
    )
