"""The release archive on GitHub: everything, third_party included."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from decouple.release.manifest import Manifest, ManifestSource, RemoteFile, TreeId
from decouple.upstream import pristine
from decouple.upstream.providers.context import FetchContext, Provider, ReleaseFacts, check_version
from decouple.upstream.readers import OpenedSource, read_archive
from decouple.upstream.unpack import unpack_tar
from decouple.upstream.unpacked_release import UnpackedRelease

GITHUB = "https://github.com/pytorch/pytorch"


class GithubSource(ManifestSource, frozen=True):
    """Describe the release archive on GitHub, which has all submodules in it."""

    archive: RemoteFile
    #: Id of the git tree that the unpacked archive gives; None: not pinned.
    tree: TreeId | None = None
    provider: ClassVar[str] = "github"


def read_published(release: ReleaseFacts) -> GithubSource:
    """Return the archive of the release.

    Size and hash, which only GitHub could say, are those of the manifest as it is.
    """
    name = f"pytorch-v{release.version}.tar.gz"
    archive = RemoteFile(name, (f"{GITHUB}/releases/download/v{release.version}/{name}",), None, None)
    before = release.known.find_source("github") if release.known else None
    if isinstance(before, GithubSource) and before.archive.name == name:
        archive = replace(archive, size=before.archive.size, sha256=before.archive.sha256)
    return GithubSource(archive)


def find_cached(manifest: Manifest, source: GithubSource, context: FetchContext) -> UnpackedRelease | None:
    """Return the release if it was unpacked before."""
    digest = context.downloader.read_trusted_hash(source.archive)
    return context.find_unpacked(manifest, f"github-{digest[:32]}") if digest else None


def open_files(source: GithubSource, wanted: Collection[str], context: FetchContext) -> OpenedSource:
    """Read the wanted files straight from the archive. Raises DecoupleError."""
    archive, _ = context.downloader.fetch_file(source.archive)
    name = f"github, {source.archive.name}"
    return OpenedSource(read_archive(archive, wanted, context.cache), name, published=name)


def fetch_source(manifest: Manifest, source: GithubSource, context: FetchContext) -> UnpackedRelease:
    """Download, verify and unpack. Raises DecoupleError."""
    cached = find_cached(manifest, source, context)
    if cached:
        return cached
    archive, verified = context.downloader.fetch_file(source.archive)
    identity = f"github-{verified.sha256[:32]}"

    def unpack_release(folder: Path) -> UnpackedRelease:
        unpack_tar(archive, folder / "tree", leave_out=pristine.is_left_out, progress=context.progress)
        notes = list(check_version(folder / "tree", manifest, source.archive.name))
        if source.archive.sha256 is None:
            notes.append(
                f"NOBODY PUBLISHED A HASH of {source.archive.name}: it is trusted because it came from "
                f"{verified.url.split('/')[2]} first; its SHA-256 {verified.sha256} is recorded in the cache, "
                "and another file under this name will be refused"
            )
        return UnpackedRelease(
            provider="github",
            kind="source",
            path=folder / "tree",
            identity=identity,
            files=(verified,),
            notes=tuple(notes),
        )

    return context.unpack(manifest, identity, unpack_release)


PROVIDER = Provider(GithubSource, find_cached, fetch_source, open_files, read_published)
