"""``fetch``: one call for every provider, and ``auto``, which says which it took and why."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import cache_dir
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest, ManifestSource
from decouple.upstream import words
from decouple.upstream.download import Downloader, StorageError
from decouple.upstream.fetched import Fetched
from decouple.upstream.providers import local
from decouple.upstream.providers.context import FetchContext
from decouple.upstream.providers.table import PROVIDERS


def fetch(
    manifest: Manifest,
    source: str = "auto",
    *,
    cache: Path | None = None,
    offline: bool = False,
    progress: Progress = SILENT,
    downloader: Downloader | None = None,
) -> Fetched:
    """The source of a release, verified and unpacked; from the cache when it is there.

    ``source``: a word of ``decouple.upstream.words``. ``cache`` is the shared
    one by default. Raises DecoupleError, UsageError for a source that there is not.
    """
    cache = cache or cache_dir()
    downloader = downloader or Downloader(cache, offline=offline, progress=progress)
    context = FetchContext(cache, downloader, offline, progress)
    path = words.local(source)
    if path is not None:
        if source == words.LOCAL:
            raise UsageError("--source local: needs a path", next_step="write it as local:PATH")
        return replace(local.fetch(manifest, path, context), why=f"asked for with --source {source}")
    if source == "auto":
        return _auto(manifest, context)
    chosen = named(manifest, source)
    return replace(PROVIDERS[source].fetch(manifest, chosen, context), why=f"asked for with --source {source}")


def named(manifest: Manifest, provider: str) -> ManifestSource:
    """The source of this provider. Raises UsageError when the release has none."""
    source = manifest.source(provider)
    if source is None:
        have = ", ".join(item.provider for item in manifest.sources)
        raise UsageError(
            f"release {manifest.release} has no source {provider!r}", next_step=f"choose auto, {have} or a path"
        )
    return source


def _auto(manifest: Manifest, context: FetchContext) -> Fetched:
    """The first source of the manifest that is in the cache, else the first that can be had; only what can be built.

    So a run with a warm cache needs no network and takes what the run before it took. Otherwise a host that cannot be
    reached is asked just once: the next provider is the better second try.
    """
    for source in manifest.sources:
        provider = PROVIDERS[source.provider]
        found = None if provider.lacks else provider.cached(manifest, source, context)
        if found:
            return replace(found, why="the first of the manifest's sources that is in the cache")
    impatient = replace(context, downloader=context.downloader.impatient())
    failures: list[str] = []
    for source in manifest.sources:
        provider = PROVIDERS[source.provider]
        if provider.lacks:
            failures.append(f"{source.provider}: {provider.lacks}")
            continue
        try:
            fetched = provider.fetch(manifest, source, impatient)
        except (UsageError, StorageError):
            raise
        except DecoupleError as error:
            failures.append(f"{source.provider}: {error.what}")
            continue
        before = "".join(f"; not {failure}" for failure in failures)
        return replace(fetched, why=f"the first that could be had{before}")
    raise DecoupleError(
        f"no source of PyTorch {manifest.version} can be had: " + "; ".join(failures),
        next_step="check the network, or use --source local:PATH with a tree or an archive that you have",
    )
