"""Choose a release and its source, for every flow that reads upstream's source."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class ReleaseRequest(Struct, frozen=True):
    """A release of a checkout, and a source of it."""

    project: Path
    release: str
    source: str = "auto"
    """A word of ``decouple.upstream.source_specifier``."""
    offline: bool = False
    """Only what the cache has."""


class BaselineRequest(ReleaseRequest, frozen=True):
    """The same, where the whole tree is wanted."""

    debian_patches: bool | None = None
    """With Debian's own patches; of ``auto``, Debian's source then. None: as the tree has it, a new one without."""
    cache: Path | None = None
    """Where sources are unpacked; None: the cache that all checkouts share."""
