"""Select what belongs to a pristine tree, from an archive, from git or Debian.

The files are the same in each case. The reference is the release archive: upstream's release job copies a checkout,
removes ``.ci`` and ``.circleci`` at the top and everything named ``.git*`` at any depth, and packs the rest (its
``.github/workflows/create_release.yml``). Debian's orig archive is that archive without third_party. So a git checkout
has to lose the same entries, and line ends stay as a checkout writes them (``*.bat`` has CRLF in the archive through
``.gitattributes``).
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.files import walk_files
from decouple.base.git import EXECUTABLE, REGULAR, SYMLINK, run_git, split_names

_TOP_LEVEL = frozenset({".ci", ".circleci"})


def is_left_out(parts: Sequence[str]) -> bool:
    """Return whether the entry with these path parts is no part of a pristine tree."""
    return parts[0] in _TOP_LEVEL or any(part.startswith(".git") for part in parts)


class PristineFile(Struct, frozen=True):
    """One file of a tree: ``path`` relative with ``/``, ``mode`` as in `base.git`."""

    path: str
    mode: int
    info: os.stat_result


def list_entries(root: Path) -> list[PristineFile]:
    """Return every file and link of the tree at ``root``, sorted by path.

    A work tree of git gives its tracked files (submodules too), so that build results lying in it stay out; any other
    folder gives everything in it. Raises DecoupleError for an entry that git cannot hold.
    """
    names = (
        _list_tracked_files(root) if (root / ".git").exists() else [name for name, _ in walk_files(root, _is_entered)]
    )
    result = []
    for name in names:
        if is_left_out(name.split("/")):
            continue
        try:
            info = os.lstat(f"{root}/{name}")
        except FileNotFoundError:
            raise DecoupleError(
                f"{root}: git lists {name}, but it is not there",
                next_step=f"git -C {shlex.quote(str(root))} checkout -- {shlex.quote(name)}",
            ) from None
        if stat.S_ISDIR(info.st_mode):  # a submodule that is not checked out
            if any(os.scandir(f"{root}/{name}")):
                raise DecoupleError(f"{root}/{name}: a repository git does not list", next_step="move it away")
            continue
        result.append(PristineFile(name, _find_git_mode(root, name, info), info))
    result.sort(key=lambda entry: entry.path)
    return result


def _find_git_mode(root: Path, name: str, info: os.stat_result) -> int:
    if stat.S_ISLNK(info.st_mode):
        return SYMLINK
    if not stat.S_ISREG(info.st_mode):
        raise DecoupleError(f"{root}/{name}: neither a file, a folder nor a link", next_step="remove it")
    return EXECUTABLE if info.st_mode & stat.S_IXUSR else REGULAR


def _is_entered(folder: str) -> bool:
    return not is_left_out(folder.split("/"))


def _list_tracked_files(root: Path) -> list[str]:
    return split_names(run_git("ls-files", "-z", "--cached", "--recurse-submodules", cwd=root))
