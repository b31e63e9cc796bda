"""A repository of its own that sees the objects of both releases, so that a rebase disturbs no tree of the user's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from decouple.base.git import Repository


def open_workspace(folder: Path, borrowed: Iterable[Path]) -> Repository:
    """The repository in ``folder``, made if need be, that reads the objects of ``borrowed`` (bare repositories or
    ``.git`` folders) through alternates. Raises DecoupleError when git refuses."""
    repository = Repository(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (repository.git_dir / "HEAD").exists():
        repository.run("init", "-q", "--template=")
    info = repository.git_dir / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    lines = [f"{(place / 'objects').resolve()}\n" for place in borrowed if (place / "objects").is_dir()]
    (info / "alternates").write_text("".join(lines), encoding="utf-8")
    return repository
