"""The providers. A new one is a module beside this file, its keys in the manifest's table, and its row here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from decouple.release.manifest import Manifest, Source
from decouple.upstream.fetched import Fetched
from decouple.upstream.providers import debian, git, github, wheel
from decouple.upstream.providers.context import FetchContext, Published
from decouple.upstream.readers import OpenedSource, unpacked


@dataclass(frozen=True)
class Provider:
    """What can be done with a source of one kind; each function is given the manifest, its own source, the context."""

    cached: Callable[[Manifest, Any, FetchContext], Fetched | None]
    """What an earlier fetch left in the cache."""
    fetch: Callable[[Manifest, Any, FetchContext], Fetched]
    """The release, verified and unpacked."""
    opened: Callable[[Any, Collection[str], FetchContext], OpenedSource] | None = None
    """The wanted files alone, where they can be had without unpacking all of it."""
    published: Callable[[Published], Source | None] | None = None
    """Where an upstream release is to be had from it, read off what is published; None where it has none."""
    lacks: str = ""
    """Why nothing can be built from it; empty where something can."""

    def read(self, manifest: Manifest, source: Source, wanted: Collection[str], context: FetchContext) -> OpenedSource:
        """The source, opened so that no more than ``wanted`` is read where that is possible. Raises DecoupleError."""
        if self.opened:
            return self.opened(source, wanted, context)
        fetched = self.fetch(manifest, source, context)
        return unpacked(fetched.provider, fetched.path, partial=fetched.kind != "source")


PROVIDERS = {
    "github": Provider(github.cached, github.fetch, github.opened, github.published),
    "git": Provider(git.cached, git.fetch, published=git.published),
    "debian": Provider(debian.cached, debian.fetch, debian.opened, debian.published),
    "wheel": Provider(
        wheel.cached,
        wheel.fetch,
        wheel.opened,
        lambda published: published.wheel,
        lacks="has Python files and headers only, nothing can be built from it",
    ),
}
