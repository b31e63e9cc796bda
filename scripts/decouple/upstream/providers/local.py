"""Use a user's source: a folder in place, an archive or commit laid out in cache."""

from __future__ import annotations

import io
import os
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import compute_sha256
from decouple.base.git import EXECUTABLE, SUBMODULE, SYMLINK, is_repository, read_git_text
from decouple.base.paths import expand_home
from decouple.release.manifest import Manifest
from decouple.upstream import pristine, source_specifier
from decouple.upstream.providers.context import FetchContext, check_version
from decouple.upstream.readers import GitTree
from decouple.upstream.unpack import TreeWriter, unpack_tar
from decouple.upstream.unpacked_release import UnpackedRelease, VerifiedFile


def fetch_source(manifest: Manifest, path: Path, context: FetchContext) -> UnpackedRelease:
    """Take the tree, the archive or the commit that ``path`` names.

    A commit is named as ``REPOSITORY@REVISION``. Raises DecoupleError, UsageError when there is none.
    """
    path, revision = source_specifier.split_revision(expand_home(path).resolve())
    if revision is None and is_repository(path) and not (path / ".git").exists():
        revision = "HEAD"
    if revision is not None:
        return _fetch_commit(manifest, path, revision, context)
    if path.is_dir():
        return _open_folder(manifest, path)
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file or folder", next_step="name a folder, an archive or REPOSITORY@REVISION"
        )
    digest = compute_sha256(path)
    identity = f"local-{digest[:32]}"

    def unpack_release(folder: Path) -> UnpackedRelease:
        unpack_tar(path, folder / "tree", leave_out=pristine.is_left_out, progress=context.progress)
        return UnpackedRelease(
            provider="local",
            kind="source",
            path=folder / "tree",
            identity=identity,
            files=(VerifiedFile(path.name, path.as_uri(), path.stat().st_size, digest, "not at all: your own file"),),
            notes=check_version(folder / "tree", manifest, str(path)),
        )

    return context.unpack(manifest, identity, unpack_release)


def _fetch_commit(manifest: Manifest, repository: Path, revision: str, context: FetchContext) -> UnpackedRelease:
    """Write out the files of one commit, submodules left out.

    A repository has them elsewhere.
    """
    tree = GitTree(repository, revision)
    identity = f"local-{read_git_text('rev-parse', f'{revision}^{{tree}}', cwd=repository)}"

    def unpack_release(folder: Path) -> UnpackedRelease:
        left = {path for path in tree.list_paths() if tree.mode(path) == SUBMODULE}
        (folder / "tree").mkdir()
        # git lists any name, '..' too: what it refuses is to check such a tree out
        writer = TreeWriter(folder / "tree", f"{repository}@{revision}", next_step="name a commit that git checks out")
        for path in tree.list_paths():
            parts = writer.split_name(path)
            if path in left or pristine.is_left_out(parts):
                continue
            data, mode = tree.read(path), tree.mode(path)
            writer.count_entry(path, len(data))
            if mode == SYMLINK:
                writer.make_link(path, parts, os.fsdecode(data))
            else:
                writer.write_file(path, parts, len(data), io.BytesIO(data), executable=mode == EXECUTABLE)
        writer.check_links()
        notes = check_version(folder / "tree", manifest, f"{repository}@{revision}")
        if left:
            notes = (*notes, f"{len(left)} submodules left out: {min(left)}, …")
        return UnpackedRelease(provider="local", kind="source", path=folder / "tree", identity=identity, notes=notes)

    return context.unpack(manifest, identity, unpack_release)


def _open_folder(manifest: Manifest, path: Path) -> UnpackedRelease:
    if not any(path.iterdir()):
        raise DecoupleError(f"{path}: an empty folder", next_step="name a PyTorch source tree")
    notes = list(check_version(path, manifest, str(path)))
    if (path / ".git").exists():
        notes.append("a git work tree: its tracked files are taken, as they are there now")
    return UnpackedRelease(provider="local", kind="source", path=path, identity=None, notes=tuple(notes))
