"""A source that a release manifest names, opened so that only what the series touches is read."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Collection
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.git import REGULAR
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import DebianSource, GithubSource, Manifest, WheelSource
from decouple.release.manifest import Source as ManifestSource
from decouple.upstream import Fetched, fetch
from decouple.upstream.download import Downloader
from decouple.upstream.fetching import cached
from decouple.upstream.providers import debian, wheel
from decouple.upstream.providers.context import Context
from decouple.upstream.ranges import RemoteZip
from decouple.upstream.readers import Folder, Kept, Opened, cached_names, from_archive, from_cache, shelf, to_cache


def open_provided(
    manifest: Manifest,
    word: str,
    wanted: Collection[str],
    downloader: Downloader,
    *,
    debian_patches: bool = False,
    progress: Progress = SILENT,
) -> tuple[Opened, Path | None]:
    """The source, and the folder of Debian's patches if they were asked for.

    Raises DecoupleError, UsageError for a word that the manifest does not have.
    """
    if debian_patches:
        fetched = fetch(manifest, "debian" if word == "auto" else word, cache=downloader.cache, downloader=downloader)
        if fetched.debian is None:
            raise UsageError(f"source {fetched.provider} brings no patches of Debian's", next_step="--source debian")
        return _unpacked(fetched), fetched.debian / "patches"
    sources = manifest.sources if word == "auto" else (_source(manifest, word),)
    context = Context(downloader.cache, downloader, downloader.offline, progress)
    for source in sources:
        found = cached(manifest, source, context)
        if found:
            return _unpacked(found), None
    failures = []
    for source in sources:
        if word == "auto" and isinstance(source, WheelSource):
            continue
        try:
            return _remote(manifest, source, wanted, downloader, progress), None
        except UsageError:
            raise
        except DecoupleError as error:
            if word != "auto":
                raise
            failures.append(f"{source.provider}: {error.what}")
    raise DecoupleError("no source can be had: " + "; ".join(failures), next_step="--source PATH reads what you have")


def _source(manifest: Manifest, word: str) -> ManifestSource:
    source = manifest.source(word)
    if source is None:
        have = ", ".join(item.provider for item in manifest.sources)
        raise UsageError(f"release {manifest.release} has no source {word!r}", next_step=f"auto, {have}, or a path")
    return source


def _unpacked(fetched: Fetched) -> Opened:
    return Opened(Folder(fetched.path), f"{fetched.provider}, unpacked in the cache", partial=fetched.kind != "source")


def _remote(
    manifest: Manifest, source: ManifestSource, wanted: Collection[str], downloader: Downloader, progress: Progress
) -> Opened:
    match source:
        case WheelSource():
            return _wheel(source, wanted, downloader, progress)
        case DebianSource():
            control, _ = downloader.get(source.dsc)
            orig, _ = debian.agree(control, source)
            archive, _ = downloader.get(orig)
            return Opened(from_archive(archive, wanted, downloader.cache), f"debian, {orig.name}")
        case GithubSource():
            archive, _ = downloader.get(source.archive)
            return Opened(from_archive(archive, wanted, downloader.cache), f"github, {source.archive.name}")
        case _:
            return _unpacked(
                fetch(
                    manifest, source.provider, cache=downloader.cache, offline=downloader.offline, downloader=downloader
                )
            )


def _wheel(source: WheelSource, wanted: Collection[str], downloader: Downloader, progress: Progress) -> Opened:
    """Just the wanted members of the wheel, by range; each is checked against the wheel's own RECORD, and kept."""
    kept = shelf(downloader.cache, wheel.identity(source))
    if found := from_cache(kept, wanted):
        return Opened(found, f"{source.wheel.name}, kept in the cache", partial=True)
    wanted = {*wanted, *cached_names(kept)}
    remote = RemoteZip(source.wheel, downloader, progress)
    targets = {member.info.filename: wheel.source_path(member.info.filename) for member in remote.members}
    chosen = remote.load(lambda info: targets[info.filename] in wanted)
    record = wheel.record(remote)
    data: dict[str, bytes] = {}
    for member in chosen:
        name = member.info.filename
        path = targets[name]
        assert path is not None
        content = remote.read(member)
        if hashlib.sha256(content).hexdigest() != record.get(name):
            raise DecoupleError(
                f"{remote.url}: {name} is not what the wheel's RECORD says", next_step="try again later"
            )
        data[path] = wheel.source_text(name, content)
    modes = {path: REGULAR for path in targets.values() if path}
    to_cache(kept, modes, data)
    described = f"{source.wheel.name} by range, {remote.requests} requests, {remote.received / 2**20:.1f} MiB"
    return Opened(Kept(modes, data), described, partial=True)


def wheel_file(path: Path, wanted: Collection[str]) -> Opened:
    """The wanted members of a wheel on disk, under the paths they have in the source tree."""
    data: dict[str, bytes] = {}
    modes: dict[str, int] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                target = None if name.endswith("/") else wheel.source_path(name)
                if target:
                    modes[target] = REGULAR
                    if target in wanted:
                        data[target] = wheel.source_text(name, archive.read(name))
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise DecoupleError(f"{path} cannot be read: {error}", next_step="fetch it again") from None
    return Opened(Kept(modes, data), f"wheel {path.name}", partial=True)
