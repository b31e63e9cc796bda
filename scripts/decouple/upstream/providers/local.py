"""Source that the user has: a folder (used where it is), an archive or a commit (laid out in the cache)."""

from __future__ import annotations

import os
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import sha256_of
from decouple.base.git import EXECUTABLE, SUBMODULE, SYMLINK, is_repository, text
from decouple.release.manifest import Manifest
from decouple.upstream import pristine, words
from decouple.upstream.fetched import Fetched, VerifiedFile
from decouple.upstream.providers.context import FetchContext, check_version
from decouple.upstream.readers import GitTree
from decouple.upstream.unpack import unpack_tar


def fetch(manifest: Manifest, path: Path, context: FetchContext) -> Fetched:
    """The tree at ``path``, in the archive ``path``, or of the commit that ``REPOSITORY@REVISION`` names.

    Raises DecoupleError, UsageError when there is none.
    """
    path, revision = words.split(path.expanduser().resolve())
    if revision is None and is_repository(path) and not (path / ".git").exists():
        revision = "HEAD"
    if revision is not None:
        return _commit(manifest, path, revision, context)
    if path.is_dir():
        return _folder(manifest, path)
    if not path.is_file():
        raise UsageError(
            f"{path}: no such file or folder", next_step="name a folder, an archive or REPOSITORY@REVISION"
        )
    digest = sha256_of(path)
    identity = f"local-{digest[:32]}"

    def make(folder: Path) -> Fetched:
        unpack_tar(path, folder / "tree", leave_out=pristine.left_out, progress=context.progress)
        return Fetched(
            provider="local",
            kind="source",
            path=folder / "tree",
            identity=identity,
            files=(VerifiedFile(path.name, path.as_uri(), path.stat().st_size, digest, "not at all: your own file"),),
            notes=check_version(folder / "tree", manifest, str(path)),
        )

    return context.unpack(manifest, identity, make)


def _commit(manifest: Manifest, repository: Path, revision: str, context: FetchContext) -> Fetched:
    """The files of one commit, submodules left out: a repository has them elsewhere."""
    tree = GitTree(repository, revision)
    identity = f"local-{text('rev-parse', f'{revision}^{{tree}}', cwd=repository)}"

    def make(folder: Path) -> Fetched:
        left = [path for path in tree.paths() if tree.mode(path) == SUBMODULE]
        (folder / "tree").mkdir()
        for path in tree.paths():
            if path in left or pristine.left_out(tuple(path.split("/"))):
                continue
            target, mode = folder / "tree" / path, tree.mode(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            if mode == SYMLINK:
                target.symlink_to(os.fsdecode(tree.read(path)))
                continue
            target.write_bytes(tree.read(path))
            target.chmod(0o755 if mode == EXECUTABLE else 0o644)
        notes = check_version(folder / "tree", manifest, f"{repository}@{revision}")
        if left:
            notes = (*notes, f"{len(left)} submodules left out: {left[0]}, …")
        return Fetched(provider="local", kind="source", path=folder / "tree", identity=identity, notes=notes)

    return context.unpack(manifest, identity, make)


def _folder(manifest: Manifest, path: Path) -> Fetched:
    if not any(path.iterdir()):
        raise DecoupleError(f"{path}: an empty folder", next_step="name a PyTorch source tree")
    notes = list(check_version(path, manifest, str(path)))
    if (path / ".git").exists():
        notes.append("a git work tree: its tracked files are taken, as they are there now")
    return Fetched(provider="local", kind="source", path=path, identity=None, notes=tuple(notes))
