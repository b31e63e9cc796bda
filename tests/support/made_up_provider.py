"""A provider of sources that there is not: all that somebody writes who adds one, but for its row in the table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from decouple.release.manifest import Manifest, ManifestSource
from decouple.upstream.providers.context import FetchContext, Provider
from decouple.upstream.unpacked_release import UnpackedRelease


class ShareSource(ManifestSource, frozen=True):
    """A folder on a share that everybody in the house can read."""

    path: str
    provider: ClassVar[str] = "share"


def cached(release: Manifest, source: ShareSource, context: FetchContext) -> UnpackedRelease | None:
    """The tree if it was copied before."""
    return context.find_unpacked(release, "share-1")


def copied(release: Manifest, source: ShareSource, context: FetchContext) -> UnpackedRelease:
    """The tree, copied into the cache."""

    def make(folder: Path) -> UnpackedRelease:
        shutil.copytree(source.path, folder / "tree", symlinks=True)
        return UnpackedRelease("share", "source", folder / "tree", "share-1")

    return context.unpack(release, "share-1", make)


PROVIDER = Provider(ShareSource, cached, copied)
