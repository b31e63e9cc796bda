"""Open a manifest's source so that only what the series touches is read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import choose_provider, fetch_source, find_source, refuse_sourceless
from decouple.upstream.providers.context import FetchContext
from decouple.upstream.providers.table import PROVIDERS
from decouple.upstream.readers import OpenedSource, open_unpacked
from decouple.upstream.request_faults import RequestError, find_setting


def open_source(
    manifest: Manifest,
    word: str,
    wanted: Collection[str],
    downloader: Downloader,
    *,
    debian_patches: bool = False,
    progress: Progress = SILENT,
) -> tuple[OpenedSource, Path | None]:
    """Open the source, and the folder of Debian's patches if they were asked for.

    Raises DecoupleError, UsageError for a word that the manifest does not have.
    """
    if debian_patches:
        word = choose_provider(manifest, word, debian_patches=True)
        fetched = fetch_source(manifest, word, cache=downloader.cache, downloader=downloader)
        if fetched.debian is None:
            raise UsageError(f"source {fetched.provider} brings no patches of Debian's", next_step="--source debian")
        return open_unpacked(fetched), fetched.debian / "patches"
    if word == "auto":
        refuse_sourceless(manifest)
    sources = manifest.sources if word == "auto" else (find_source(manifest, word),)
    context = FetchContext(downloader.cache, downloader, downloader.offline, progress)
    for source in sources:
        cached = PROVIDERS[source.provider].find_cached(manifest, source, context)
        if cached:
            return open_unpacked(cached), None
    errors: dict[str, DecoupleError] = {}
    for source in sources:
        provider = PROVIDERS[source.provider]
        if word == "auto" and provider.lacks:
            continue
        try:
            return provider.open_wanted(manifest, source, wanted, context), None
        except UsageError:
            raise
        except DecoupleError as error:
            if word != "auto":
                raise
            errors[source.provider] = error
    raise RequestError(
        "no source can be had: " + "; ".join(f"{provider}: {error.what}" for provider, error in errors.items()),
        find_setting(errors.values()),
        next_step="run once without --offline" if downloader.offline else "check the network",
        also=", or use --source PATH with what you have",
    )
