"""Fetch Debian's source package.

It is ``.dsc``, ``.orig`` (upstream without third_party) and ``.debian`` (Debian's own folder). Chain of hashes: the
manifest holds the SHA-256 of all three as Debian's index listed them; the ``.dsc``, once it is what the manifest says,
must name the same two archives with the same sizes and hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.release.manifest import Manifest, ManifestSource, RemoteFile, TreeId
from decouple.upstream import debian_index, dsc, pristine
from decouple.upstream.download import Downloader
from decouple.upstream.providers.context import FetchContext, Provider, ReleaseFacts, check_version
from decouple.upstream.readers import OpenedSource, read_archive
from decouple.upstream.unpack import unpack_tar
from decouple.upstream.unpacked_release import UnpackedRelease, VerifiedFile

SNAPSHOT = "https://snapshot.debian.org/file"


class DebianSource(ManifestSource, frozen=True):
    """Describe Debian's ``pytorch``; ``orig`` lacks third_party, ``debian`` is added."""

    version: Annotated[str, Meta(pattern=r"\A\S+\Z")]
    suite: Annotated[str, Meta(pattern=r"\A[a-z]+\Z")]
    dsc: RemoteFile
    orig: RemoteFile
    debian: RemoteFile
    #: Ids of the git trees that the unpacked source gives, pristine and with Debian's own patches; None: not pinned.
    tree: TreeId | None = None
    patched_tree: TreeId | None = None
    provider: ClassVar[str] = "debian"

    @property
    def files(self) -> tuple[RemoteFile, RemoteFile, RemoteFile]:
        """Return all that is downloaded."""
        return self.dsc, self.orig, self.debian


def read_published(release: ReleaseFacts) -> DebianSource | None:
    """Return the source package of this version from the first suite that serves it.

    Raises DecoupleError.
    """
    for suite, fields, trusted in debian_index.find_packages(release.version, release.downloader, release.remarks):
        source = _parse_source(fields, suite)
        gone = [file.urls[0] for file in source.files if not debian_index.is_served(file, release.downloader)]
        remark = (
            f"Debian {suite} lists pytorch {source.version}, but {gone[0]} is not served: left out" if gone else None
        )
        release.remarks.append(remark or f"Debian {suite}: pytorch {source.version}, index {trusted}")
        if not gone:
            return _add_snapshots(source, release.downloader)
    return None


def _parse_source(fields: dict[str, str], suite: str) -> DebianSource:
    listed = dsc.parse_source_files(fields, f"Sources of {suite}")

    def find_file(suffix: str) -> RemoteFile:
        name = next((name for name in listed if re.search(suffix, name)), None)
        if name is None:
            raise DecoupleError(
                f"Sources of {suite}: pytorch {fields['version']} has no file {suffix}",
                next_step="only 3.0 (quilt) packages can be read; look at that index",
            )
        entry = listed[name]
        url = f"{debian_index.DEBIAN}/{fields['directory']}/{name}"
        return RemoteFile(name, (url,), entry.size, entry.sha256)

    return DebianSource(
        fields["version"],
        suite,
        find_file(r"\.dsc$"),
        find_file(r"\.orig\.tar\.\w+$"),
        find_file(r"\.debian\.tar\.\w+$"),
    )


def _add_snapshots(source: DebianSource, downloader: Downloader) -> DebianSource:
    """Add the second place of each file, at snapshot.debian.org by SHA-1.

    Files there stay when the pool moves on. The index has no SHA-1; the ``.dsc`` lists it for the archives.
    """
    path, _ = downloader.fetch_file(source.dsc)
    control = path.read_bytes()
    listed = dsc.parse_source_files(
        next(dsc.parse_paragraphs(dsc.remove_signature(control.decode())), {}), source.dsc.name
    )

    def add_snapshot(file: RemoteFile, sha1: str | None) -> RemoteFile:
        return replace(file, urls=(*file.urls, f"{SNAPSHOT}/{sha1}")) if sha1 else file

    return replace(
        source,
        dsc=add_snapshot(source.dsc, hashlib.sha1(control, usedforsecurity=False).hexdigest()),
        orig=add_snapshot(source.orig, listed[source.orig.name].sha1),
        debian=add_snapshot(source.debian, listed[source.debian.name].sha1),
    )


def make_identity(source: DebianSource) -> str:
    """Return the key of this source package.

    A digest over the names and hashes of its files.
    """
    digest = hashlib.sha256()
    for file in source.files:
        digest.update(f"{file.name} {file.sha256}\n".encode())
    return f"debian-{digest.hexdigest()[:32]}"


def find_cached(manifest: Manifest, source: DebianSource, context: FetchContext) -> UnpackedRelease | None:
    """Return the package if it was unpacked before."""
    return context.find_unpacked(manifest, make_identity(source))


def open_files(source: DebianSource, wanted: Collection[str], context: FetchContext) -> OpenedSource:
    """Read the wanted files straight from the .orig archive. Raises DecoupleError."""
    control, _ = context.downloader.fetch_file(source.dsc)
    orig, _ = check_agreement(control, source)
    archive, _ = context.downloader.fetch_file(orig)
    opened = read_archive(archive, wanted, context.cache)
    return OpenedSource(opened, f"debian, {orig.name}", published=f"debian, {source.dsc.name}")


def fetch_source(manifest: Manifest, source: DebianSource, context: FetchContext) -> UnpackedRelease:
    """Download, verify and unpack. Raises DecoupleError."""

    def unpack_release(folder: Path) -> UnpackedRelease:
        control, control_file = context.downloader.fetch_file(source.dsc)
        orig, debian = check_agreement(control, source)
        orig_path, orig_file = context.downloader.fetch_file(orig)
        debian_path, debian_file = context.downloader.fetch_file(debian)
        unpack_tar(orig_path, folder / "tree", leave_out=pristine.is_left_out, progress=context.progress)
        unpack_tar(debian_path, folder / "debian", progress=context.progress)
        notes = ["third_party is not in it: Debian's patches put system libraries in its place"]
        notes += check_version(folder / "tree", manifest, orig.name)
        return UnpackedRelease(
            provider="debian",
            kind="source",
            path=folder / "tree",
            debian=folder / "debian",
            identity=make_identity(source),
            files=(control_file, _fetch_verified_file(orig_file), _fetch_verified_file(debian_file)),
            notes=tuple(notes),
        )

    return context.unpack(manifest, make_identity(source), unpack_release)


def check_agreement(control: Path, source: DebianSource) -> tuple[RemoteFile, RemoteFile]:
    """Return the .orig and .debian archives that manifest and ``.dsc`` agree on.

    Raises DecoupleError that names the first thing they disagree about.
    """
    text = control.read_text(encoding="utf-8")
    fields = next(dsc.parse_paragraphs(dsc.remove_signature(text)), {})
    if fields.get("source") != "pytorch" or fields.get("version") != source.version:
        raise DecoupleError(
            f"{control}: this is {fields.get('source')} {fields.get('version')}, the manifest says "
            f"pytorch {source.version}",
            next_step="correct the manifest with: decouple manifest fill RELEASE --write",
        )
    listed = dsc.parse_source_files(fields, str(control))
    result = []
    for file in (source.orig, source.debian):
        entry = listed.get(file.name)
        if entry is None:
            raise DecoupleError(
                f"{control}: does not list {file.name}",
                next_step="correct the manifest with: decouple manifest fill RELEASE --write",
            )
        for what, ours, theirs in (("size", file.size, entry.size), ("sha256", file.sha256, entry.sha256)):
            if ours is not None and ours != theirs:
                raise DecoupleError(
                    f"{control}: {file.name}: {what} {theirs}, but the manifest says {ours}",
                    next_step="one of the two was tampered with or is out of date: "
                    "`decouple manifest fill RELEASE` shows what is published, --write takes it",
                )
        result.append(replace(file, size=entry.size, sha256=entry.sha256))
    return result[0], result[1]


def _fetch_verified_file(file: VerifiedFile) -> VerifiedFile:
    return replace(file, verified=f"{file.verified} and .dsc")


PROVIDER = Provider(DebianSource, find_cached, fetch_source, open_files, read_published)
