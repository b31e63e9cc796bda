"""Share the providers' input, shelf of unpacked trees and version check."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict
from packaging.version import InvalidVersion, Version

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock, make_work_folder
from decouple.base.git import GitError
from decouple.base.progress import SILENT, Progress
from decouple.release.manifest import Manifest, ManifestSource, RemoteFile
from decouple.upstream import tree_record
from decouple.upstream.download import Downloader, make_storage_error
from decouple.upstream.readers import OpenedSource, open_unpacked
from decouple.upstream.unpack import make_new_folder
from decouple.upstream.unpacked_release import RECORD, UnpackedRelease, read_record, write_record


class ReleaseFacts(Struct, frozen=True):
    """Hold the version ("2.6.0") and official wheel whose facts a provider reads.

    ``known`` is the manifest as it is, for what is not published anywhere; ``remarks`` are for whoever reads the facts.
    """

    version: str
    downloader: Downloader
    known: Manifest | None
    wheel: RemoteFile
    remarks: list[str] = []

    def keep_tree_ids(self, source: ManifestSource) -> ManifestSource:
        """Return the source with the tree ids that the manifest had for these files."""
        known = self.known.find_source(source.provider) if self.known else None
        ids = {"tree": None, "patched_tree": None}
        return known if known and {**asdict(known), **ids} == {**asdict(source), **ids} else source


class FetchContext(Struct, frozen=True):
    """The cache, the way into it, and who is told how far things are."""

    cache: Path
    downloader: Downloader
    offline: bool = False
    progress: Progress = SILENT

    def make_shelf_path(self, manifest: Manifest, identity: str) -> Path:
        """Return the folder of one unpacked release.

        The tree, what lies beside it, and its record.
        """
        return self.cache / "trees" / manifest.release / identity

    def find_unpacked(self, manifest: Manifest, identity: str) -> UnpackedRelease | None:
        """Return the release if this user unpacked it before."""
        folder = self.make_shelf_path(manifest, identity)
        return read_record(folder) if tree_record.is_ours(folder) else None

    def unpack(self, manifest: Manifest, identity: str, make: Callable[[Path], UnpackedRelease]) -> UnpackedRelease:
        """Return the release from the shelf; ``make`` fills a new folder if it is absent.

        What others left there, or nobody knows who, is unpacked once more to know what it should be. Raises
        DecoupleError; nothing is left on the shelf then.
        """
        folder = self.make_shelf_path(manifest, identity)
        release = self.find_unpacked(manifest, identity)
        if release:
            return release
        with (
            self._convert_storage_errors(f"unpacking PyTorch {manifest.version}"),
            hold_lock(folder.with_name(f".{folder.name}.lock")),
        ):
            if not (folder / RECORD).is_file():
                with make_new_folder(folder) as temporary:
                    write_record(temporary, make(temporary))
                    tree_record.record_files(temporary, of=folder)
            elif not tree_record.is_ours(folder):  # another run may have been quicker
                with make_work_folder(folder.parent, folder.name) as temporary:
                    write_record(temporary, make(temporary))
                    tree_record.renew_records(folder, temporary)
            release = read_record(folder)
            assert release is not None
        return release

    @contextlib.contextmanager
    def _convert_storage_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise make_storage_error(error, self.cache, doing) from None
        except GitError as error:
            if not error.answer.full:
                raise
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise make_storage_error(full, self.cache, doing) from None


class Provider(Struct, frozen=True):
    """Describe what a source of one kind can do, given manifest, source and context."""

    keys: type[ManifestSource]
    """What its entry in a manifest has, next to ``provider``."""
    find_cached: Callable[[Manifest, Any, FetchContext], UnpackedRelease | None]
    """What an earlier fetch left in the cache."""
    fetch: Callable[[Manifest, Any, FetchContext], UnpackedRelease]
    """The release, verified and unpacked."""
    open_files: Callable[[Any, Collection[str], FetchContext], OpenedSource] | None = None
    """The wanted files alone, where they can be had without unpacking all of it."""
    read_published: Callable[[ReleaseFacts], ManifestSource | None] | None = None
    """Where an upstream release is to be had from it, read off what is published; None where it has none."""
    lacks: str = ""
    """Why nothing can be built from it; empty where something can."""

    def open_wanted(
        self, manifest: Manifest, source: ManifestSource, wanted: Collection[str], context: FetchContext
    ) -> OpenedSource:
        """Open the source so that no more than ``wanted`` is read where that is possible.

        Raises DecoupleError.
        """
        if self.open_files:
            return self.open_files(source, wanted, context)
        return open_unpacked(self.fetch(manifest, source, context))


def check_version(tree: Path, manifest: Manifest, where: str) -> tuple[str, ...]:
    """Compare ``version.txt`` of a tree with the manifest; notes for the record.

    Upstream's tags carry the development version there ("2.6.0a0" in v2.6.0), and a patch release may still carry that
    of the first one ("1.13.0a0" in v1.13.1): X.Y has to agree, another Z is noted. Raises DecoupleError when it is
    another release's tree.
    """
    try:
        text = (tree / "version.txt").read_text(encoding="utf-8").strip()
        version = Version(text)
    except FileNotFoundError:
        return ("no version.txt, so the version was not checked",)
    except (InvalidVersion, UnicodeDecodeError):
        raise DecoupleError(f"{where}: version.txt holds no version", next_step="is this a PyTorch tree?") from None
    if version.release[:2] != Version(manifest.version).release[:2]:
        raise DecoupleError(
            f"{where}: version.txt says {text}, but release {manifest.release} is {manifest.version}",
            next_step="name the release that this source is, or fetch the right source",
        )
    if version.release != Version(manifest.version).release:
        return (f"version.txt says {text}; upstream does not always raise it for a patch release",)
    return ()
