"""Open what the word behind ``--source`` names for ``check`` to read.

The word is explained in ``decouple.upstream.source_specifier``. Only what the series touches is read: from a tree that
an earlier fetch unpacked, straight from the downloaded archive, or by range from the wheel.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from decouple.base.errors import UsageError
from decouple.base.paths import find_cache
from decouple.base.progress import SILENT, Progress
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.upstream import source_specifier
from decouple.upstream.readers import OpenedSource, open_path


def open_named_source(
    project: Path,
    release: str,
    word: str,
    wanted: Collection[str],
    *,
    offline: bool = False,
    debian_patches: bool = False,
    progress: Progress = SILENT,
) -> tuple[OpenedSource, list[Patch]]:
    """Open the source that ``word`` names, with Debian's patches for under the series.

    These where ``debian_patches`` asks for them. Raises DecoupleError, UsageError for a word that names nothing.
    """
    cache = find_cache()
    named = source_specifier.parse_local_path(word)
    if named is not None:
        path, revision = source_specifier.split_revision(named)
        if debian_patches:
            raise UsageError("a path brings no patches of Debian's", next_step="lay them under with --under FOLDER")
        if path.suffix == ".whl" and path.is_file():
            from decouple.upstream.providers.wheel import open_wheel

            return open_wheel(path, wanted), []
        return open_path(path, revision, wanted, cache), []
    # a path needs none of the providers, nor what they import
    from decouple.upstream.download import Downloader
    from decouple.upstream.manifest_sources import open_source
    from decouple.upstream.manifests import load_release

    manifest = load_release(project, release)
    downloader = Downloader(cache, offline=offline, progress=progress)
    opened, folder = open_source(manifest, word, wanted, downloader, debian_patches=debian_patches, progress=progress)
    return opened, read_series(folder) if folder else []


def read_series(folder: Path) -> list[Patch]:
    """Read the patches that ``folder/series`` lists, from ``folder``.

    Raises DecoupleError.
    """
    series = series_file.read_series(folder / "series")
    return [entry.load_patch(folder).check_readable(empty=False) for entry in series.entries]
