"""What is mounted where, and removing a folder without ever going through a mount."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import remove_folder
from decouple.base.steps import mark_step

MOUNTINFO = Path("/proc/self/mountinfo")


def list_mounts(folder: Path, mountinfo: Path = MOUNTINFO) -> list[Path]:
    """List mount points at or below ``folder`` in this mount namespace, deepest first.

    Source of the format: ``proc_pid_mountinfo(5)``.
    """
    wanted = folder.resolve()
    points = []
    for line in mountinfo.read_bytes().splitlines():
        # blanks and backslashes are written as \040 and the like, every other byte as it is
        raw = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), line.split(b" ")[4])
        point = Path(os.fsdecode(raw))
        if point == wanted or wanted in point.parents:
            points.append(point)
    return sorted(points, key=lambda path: -len(path.parts))


def refuse_link(folder: Path) -> None:
    """Raise DecoupleError where a symbolic link stands in the place of ``folder``."""
    if folder.is_symlink():
        raise DecoupleError(
            f"{folder}: is a symbolic link; not deleting through it", next_step=f"rm {shlex.quote(str(folder))}"
        )


def remove_tree(folder: Path, last: Sequence[str] = ()) -> None:
    """Delete ``folder`` when nothing is mounted at or below it.

    A folder that is not there is fine. What it has of the names ``last`` goes behind all else, so it still says of what
    an interrupted deletion left what that is.

    Raises DecoupleError naming the first mount otherwise: it is somebody else's and what is behind it is not ours.
    """
    refuse_link(folder)
    if not folder.exists():
        return
    mounted = list_mounts(folder)
    if mounted:
        raise DecoupleError(f"{folder}: {mounted[0]} is mounted there; not deleted", next_step=f"umount {mounted[0]}")
    device = folder.lstat().st_dev
    pending = [str(folder)]
    while pending:  # os.walk calls itself for every level
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.stat(follow_symlinks=False).st_dev != device:
                        remedy = f"umount {entry.path}"
                        raise DecoupleError(f"{entry.path}: on another file system; not deleted", next_step=remedy)
                    pending.append(entry.path)
    mark_step(f"delete {folder.name}")
    if last:
        for path in sorted(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            elif path.name not in last:
                path.unlink()
    remove_folder(folder)
