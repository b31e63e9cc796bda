"""Debian's source package: ``.dsc``, ``.orig`` (upstream without third_party) and ``.debian`` (Debian's own folder).

Chain of hashes: the manifest holds the SHA-256 of all three as Debian's index listed them; the ``.dsc``, once it is
what the manifest says, must name the same two archives with the same sizes and hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.release.manifest import DebianSource, Manifest, RemoteFile
from decouple.upstream import debian_index, dsc, pristine
from decouple.upstream.fetched import Fetched, VerifiedFile
from decouple.upstream.providers.context import FetchContext, Published, check_version
from decouple.upstream.readers import OpenedSource, from_archive
from decouple.upstream.unpack import unpack_tar


def published(release: Published) -> DebianSource | None:
    """The source package of this version, where a suite serves one. Raises DecoupleError."""
    return debian_index.find(release.version, release.downloader, release.remarks)


def identity(source: DebianSource) -> str:
    """The key of this source package: a digest over the names and hashes of its files."""
    digest = hashlib.sha256()
    for file in (source.dsc, source.orig, source.debian):
        digest.update(f"{file.name} {file.sha256}\n".encode())
    return f"debian-{digest.hexdigest()[:32]}"


def cached(manifest: Manifest, source: DebianSource, context: FetchContext) -> Fetched | None:
    """The package if it was unpacked before."""
    return context.unpacked(manifest, identity(source))


def opened(source: DebianSource, wanted: Collection[str], context: FetchContext) -> OpenedSource:
    """The wanted files, straight from the .orig archive. Raises DecoupleError."""
    control, _ = context.downloader.get(source.dsc)
    orig, _ = agree(control, source)
    archive, _ = context.downloader.get(orig)
    return OpenedSource(from_archive(archive, wanted, context.cache), f"debian, {orig.name}")


def fetch(manifest: Manifest, source: DebianSource, context: FetchContext) -> Fetched:
    """Download, verify and unpack. Raises DecoupleError."""

    def make(folder: Path) -> Fetched:
        control, control_file = context.downloader.get(source.dsc)
        orig, debian = agree(control, source)
        orig_path, orig_file = context.downloader.get(orig)
        debian_path, debian_file = context.downloader.get(debian)
        unpack_tar(orig_path, folder / "tree", leave_out=pristine.left_out, progress=context.progress)
        unpack_tar(debian_path, folder / "debian", progress=context.progress)
        notes = ["third_party is not in it: Debian's patches put system libraries in its place"]
        notes += check_version(folder / "tree", manifest, orig.name)
        return Fetched(
            provider="debian",
            kind="source",
            path=folder / "tree",
            debian=folder / "debian",
            identity=identity(source),
            files=(control_file, _both(orig_file), _both(debian_file)),
            notes=tuple(notes),
        )

    return context.unpack(manifest, identity(source), make)


def agree(control: Path, source: DebianSource) -> tuple[RemoteFile, RemoteFile]:
    """The .orig and .debian archives, after manifest and ``.dsc`` were found to say the same about them.

    Raises DecoupleError that names the first thing they disagree about.
    """
    text = control.read_text(encoding="utf-8")
    fields = next(dsc.paragraphs(dsc.unsigned(text)), {})
    if fields.get("source") != "pytorch" or fields.get("version") != source.version:
        raise DecoupleError(
            f"{control}: this is {fields.get('source')} {fields.get('version')}, the manifest says "
            f"pytorch {source.version}",
            next_step="correct the manifest with: decouple manifest fill",
        )
    listed = dsc.source_files(fields, str(control))
    result = []
    for file in (source.orig, source.debian):
        entry = listed.get(file.name)
        if entry is None:
            raise DecoupleError(
                f"{control}: does not list {file.name}", next_step="correct the manifest with: decouple manifest fill"
            )
        for what, ours, theirs in (("size", file.size, entry.size), ("sha256", file.sha256, entry.sha256)):
            if ours is not None and ours != theirs:
                raise DecoupleError(
                    f"{control}: {file.name}: {what} {theirs}, but the manifest says {ours}",
                    next_step="one of the two was tampered with or is out of date: decouple manifest fill",
                )
        result.append(replace(file, size=entry.size, sha256=entry.sha256))
    return result[0], result[1]


def _both(file: VerifiedFile) -> VerifiedFile:
    return replace(file, verified=f"{file.verified} and .dsc")
