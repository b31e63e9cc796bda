"""Fetch from any provider; ``auto`` says which it took and why."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.paths import find_cache
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest, ManifestSource
from decouple.upstream import source_specifier
from decouple.upstream.download import Downloader, StorageError
from decouple.upstream.providers import local
from decouple.upstream.providers.context import FetchContext
from decouple.upstream.providers.table import PROVIDERS
from decouple.upstream.request_faults import RequestError, find_setting
from decouple.upstream.unpacked_release import UnpackedRelease


def fetch_source(
    manifest: Manifest,
    source: str = "auto",
    *,
    cache: Path | None = None,
    offline: bool = False,
    progress: Progress = SILENT,
    downloader: Downloader | None = None,
) -> UnpackedRelease:
    """Fetch the source of a release, verified and unpacked.

    From the cache when it is there. ``source``: a word of ``decouple.upstream.source_specifier``. ``cache``: by
    default the shared one. Raises DecoupleError, UsageError for a source that there is not.
    """
    cache = (cache or find_cache()).absolute()  # git is started in other folders
    downloader = downloader or Downloader(cache, offline=offline, progress=progress)
    context = FetchContext(cache, downloader, offline, progress)
    path = source_specifier.parse_local_path(source)
    if path is not None:
        return replace(local.fetch_source(manifest, path, context), why=f"asked for with --source {source}")
    if source == "auto":
        return _fetch_first_source(manifest, context)
    chosen = find_source(manifest, source)
    return replace(PROVIDERS[source].fetch(manifest, chosen, context), why=f"asked for with --source {source}")


def find_source(manifest: Manifest, provider: str) -> ManifestSource:
    """Return the source of this provider. Raises UsageError when the release has none."""
    source = manifest.find_source(provider)
    if source is None:
        have = ", ".join(item.provider for item in manifest.sources)
        raise UsageError(
            f"release {manifest.release} has no source {provider!r}",
            next_step=f"choose auto, {have} or a path" if have else "choose a path",
        )
    return source


def refuse_sourceless(manifest: Manifest) -> None:
    """Raise UsageError for a manifest that was read off a tree of the user's."""
    if not manifest.sources:
        raise UsageError(
            f"release {manifest.release}: its manifest names no source, it was read off a tree",
            next_step="name that tree: --source PATH",
        )


def choose_provider(manifest: Manifest, source: str, *, debian_patches: bool) -> str:
    """Return ``source``, or Debian's for ``auto`` where its patches are wanted.

    They come with that source alone. Raises UsageError where the release has none.
    """
    if not debian_patches or source != "auto":
        return source
    if manifest.find_source("debian") is None:
        raise UsageError(
            f"release {manifest.release} has no source 'debian', which brings Debian's patches",
            next_step="leave --debian-patches out, or build with --env portable",
        )
    return "debian"


def _fetch_first_source(manifest: Manifest, context: FetchContext) -> UnpackedRelease:
    """Fetch the first source of the manifest that can be had; a cached one goes first.

    Only what can be built. So a run with a warm cache needs no network and takes what the run before it took.
    Otherwise a host that cannot be reached is asked just once: the next provider is the better second try.
    """
    refuse_sourceless(manifest)
    for source in manifest.sources:
        provider = PROVIDERS[source.provider]
        release = None if provider.lacks else provider.find_cached(manifest, source, context)
        if release:
            return replace(release, why="the first of the manifest's sources that is in the cache")
    impatient = replace(context, downloader=context.downloader.make_impatient())
    failures: list[str] = []
    errors: list[DecoupleError] = []
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
            errors.append(error)
            continue
        before = "".join(f"; not {failure}" for failure in failures)
        return replace(fetched, why=f"the first that could be had{before}")
    raise RequestError(
        f"no source of PyTorch {manifest.version} can be had: " + "; ".join(failures),
        find_setting(errors),
        next_step="run once without --offline" if context.offline else "check the network",
        also=", or use --source local:PATH with a tree or an archive that you have",
    )
