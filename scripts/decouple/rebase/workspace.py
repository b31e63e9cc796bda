"""Make a repository that sees the objects of both releases, away from the user's."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from decouple.base.files import write_atomically
from decouple.base.git import Repository
from decouple.stack import worktree


def open_workspace(folder: Path, borrowed: Iterable[Path]) -> Repository:
    """Open the repository in ``folder``, made if need be.

    It reads the objects of ``borrowed`` (bare repositories or ``.git`` folders) through alternates. What it borrowed
    from before stays: its work tree may stand on a commit from there. Locks that a killed run left go; the caller
    keeps others out. Raises DecoupleError when git refuses.
    """
    repository = Repository(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (repository.git_dir / "HEAD").exists():
        repository.run("init", "-q", "--template=")
    worktree.forget_ref_locks(repository)
    worktree.forbid_conversion(repository)
    info = repository.git_dir / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    alternates = info / "alternates"
    wanted = [*(str((place / "objects").resolve()) for place in borrowed), *_read_alternates(info.parent)]
    folders = [place for place in dict.fromkeys(wanted) if Path(place).is_dir()]
    write_atomically(alternates, os.fsencode("".join(f"{place}\n" for place in folders)))
    return repository


def has_lost_objects(repository: Repository) -> bool:
    """Return whether a folder that the repository borrows from is gone.

    So it is when the cache was deleted.
    """
    return _lacks_folder(repository.git_dir / "objects")


def _lacks_folder(objects: Path) -> bool:
    """Return whether a folder that ``objects`` borrows from is gone.

    Or one that such a folder borrows from.
    """
    borrowed = map(Path, _read_alternates(objects))
    return any(not folder.is_dir() or _lacks_folder(folder) for folder in borrowed)


def _read_alternates(objects: Path) -> list[str]:
    """Read the folders that ``objects`` borrows from."""
    path = objects / "info/alternates"
    return os.fsdecode(path.read_bytes()).splitlines() if path.exists() else []
