"""Read the overlay, the project's ``third_device/``.

It is laid over the patched tree as its last commit. Beside the files it holds the series as applied
(``third_device/torch_cuda/torch_patches``, as the RFC asks), so that the tree alone says how it was made.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import EXECUTABLE, REGULAR, SYMLINK, Repository
from decouple.patch.mail import DATE, NOBODY
from decouple.patch.parse import Patch
from decouple.stack.commits import OVERLAY_TRAILER, CommitText, NewCommit
from decouple.stack.trees import TreeEntry, find_blocker, hash_blob, read_entries

FOLDER = "third_device"
PATCHES = "third_device/torch_cuda/torch_patches"


class OverlayFiles(Struct, frozen=True):
    """What the overlay holds: path in the tree -> git mode and content."""

    content: Mapping[str, tuple[int, bytes]]

    @property
    def digest(self) -> str:
        """Return the SHA-256 over every path, mode and content.

        It is equal for equal overlays.
        """
        total = hashlib.sha256()
        for path, (mode, data) in sorted(self.content.items()):
            total.update(f"{mode:o} {hash_blob(data)} {path}\0".encode("utf-8", "surrogateescape"))
        return total.hexdigest()


def read_overlay(repository: Repository, project: Path, series: bytes, patches: Sequence[Patch]) -> OverlayFiles:
    """Read ``third_device/`` of ``project``, plus the series as applied.

    Files its .gitignore names are left out. Raises DecoupleError for a file that is neither regular nor a link.
    """
    listed = _list_project_files(repository, project)
    content: dict[str, tuple[int, bytes]] = {}
    for path in listed:
        full = project / path
        info = full.lstat()
        if stat.S_ISLNK(info.st_mode):
            content[path] = (SYMLINK, os.fsencode(full.readlink()))
        elif stat.S_ISREG(info.st_mode):
            content[path] = (EXECUTABLE if info.st_mode & 0o100 else REGULAR, full.read_bytes())
        else:
            raise DecoupleError(f"{full} is neither a file nor a link", next_step="take it out of third_device/")
    content[f"{PATCHES}/series"] = (REGULAR, series)
    for patch in patches:
        content[f"{PATCHES}/{patch.name}"] = (REGULAR, patch.data)
    return OverlayFiles(content)


def make_overlay_commit(repository: Repository, parent: str, files: OverlayFiles) -> NewCommit:
    """Make the overlay commit on top of ``parent`` (a commit id).

    Raises DecoupleError where it meets an upstream file.
    """
    present = read_entries(repository, parent, files.content)
    taken = sorted(path for path in files.content if path in present)
    if taken:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise DecoupleError(
            f"{taken[0]}{more}: the overlay and the patched tree both have this file",
            next_step="rename ours, or give the relocation another target",
        )
    for path in files.content:
        if blocker := find_blocker(present, path):
            raise DecoupleError(
                f"{path} cannot be laid over the tree: {blocker} is a file there", next_step="rename one of the two"
            )
    message = (
        "Overlay: third_device of the project and the series as applied\n\n"
        f"{OVERLAY_TRAILER}: {files.digest}\n"
    )  # fmt: skip
    changes: dict[str, TreeEntry | tuple[int, bytes] | None] = dict(files.content)
    return NewCommit(CommitText(f"{NOBODY[0]} <{NOBODY[1]}>", DATE, message), changes)


def _list_project_files(repository: Repository, project: Path) -> list[str]:
    """Return the files below ``third_device/`` that the project does not ignore.

    Its .gitignore files decide, whether or not the project is in git.
    """
    if not (project / FOLDER).is_dir():
        return []
    elsewhere = Repository(project, repository.git_dir)
    scratch = repository.state_folder / "scratch" / "no.index"
    listed = elsewhere.run(
        "ls-files", "--others", "-z", "--exclude-per-directory=.gitignore", "--", FOLDER, index=scratch
    )
    return [name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name]
