"""Source that the user has: a folder (used where it is) or an archive (unpacked into the cache)."""

from __future__ import annotations

from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import sha256_of
from decouple.release.manifest import Manifest
from decouple.upstream import pristine
from decouple.upstream.fetched import Fetched, VerifiedFile
from decouple.upstream.providers.context import Context, check_version
from decouple.upstream.unpack import unpack_tar


def fetch(manifest: Manifest, path: Path, context: Context) -> Fetched:
    """The tree at ``path``, or in the archive ``path``. Raises DecoupleError, UsageError when there is none."""
    path = path.expanduser().resolve()
    if path.is_dir():
        return _folder(manifest, path)
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder", next_step="name the folder or archive as local:PATH")
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


def _folder(manifest: Manifest, path: Path) -> Fetched:
    if not any(path.iterdir()):
        raise DecoupleError(f"{path}: an empty folder", next_step="name a PyTorch source tree")
    notes = list(check_version(path, manifest, str(path)))
    if (path / ".git").exists():
        notes.append("a git work tree: its tracked files are taken, as they are there now")
    return Fetched(provider="local", kind="source", path=path, identity=None, notes=tuple(notes))
