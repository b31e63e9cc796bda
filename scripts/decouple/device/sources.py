"""What a build of a backend reads: which folders, whether something in them changed, and a copy of them to build in."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from decouple.base.files import remove_folder

SHARED = ("layer", "added_to_core", "tools")
"""Beside the project itself, in ``third_device``: the layer, NewDeviceCppExtension, the toolkit."""


def mirror_sources(folder: Path, to: Path) -> None:
    """Make ``to`` the sources of ``folder`` and the objects of earlier builds, from which ninja goes on.

    Not what setuptools packs wheels from: it would pack a module that the sources no longer have.
    """
    for path in [*to.glob("*"), *to.glob("build/lib*")]:
        if path.is_dir() and path.name != "build":
            remove_folder(path)
        elif path.is_file():
            path.unlink()
    shutil.copytree(folder, to, dirs_exist_ok=True, ignore=lambda _, names: [n for n in names if _is_unread(n)])


def compute_digest(folders: Sequence[Path]) -> str:
    """SHA-256 over name and content of every file that a build reads."""
    total = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder.parent)
            if path.is_file() and not any(map(_is_unread, name.parts)):
                total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _is_unread(name: str) -> bool:
    """Return whether a file or folder of this name is what an earlier build left."""
    return name in ("build", "__pycache__", ".mypy_cache") or name.endswith(".egg-info")
