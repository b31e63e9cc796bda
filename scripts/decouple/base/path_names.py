"""Types of names that a file holds and that become paths.

A reader parses the names as these types and knows where they lead.

A file in a checkout, in a cache or in a wheel may be somebody else's. msgspec checks these types while it reads, so
that no reader has a name that leads out of the folder it is for.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path, PurePosixPath
from typing import Annotated

from msgspec import Meta

from decouple.base.errors import DecoupleError

_PART = r"(?!\.{1,2}(?:/|\Z))(?!\.[Gg][Ii][Tt](?:/|\Z))[^\x00-\x1f\x7f-\x9f/\\\ud800-\udfff]{1,255}"
_PATH = re.compile(rf"\A(?=.{{1,4000}}\Z)(?![A-Za-z]:){_PART}(?:/{_PART})*\Z")

RelativePath = Annotated[str, Meta(pattern=_PATH.pattern)]
"""A path below some folder, spelled plainly: ``/`` between parts that are not empty, ``.``, ``..`` or git's own folder;
no backslash, drive letter or control character."""

_NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9._+!-]{0,199}\Z")
PathPart = Annotated[str, Meta(pattern=_NAME.pattern)]
"""What stands in the name of a file of ours: a release, a version, a patch's id. No separator, and no leading dot or
hyphen, which a program would take for an option."""


def is_relative_path(text: object) -> bool:
    """Say whether ``text`` is a `RelativePath`."""
    return isinstance(text, str) and _PATH.match(text) is not None


def is_path_part(text: object) -> bool:
    """Say whether ``text`` is a `PathPart`."""
    return isinstance(text, str) and _NAME.match(text) is not None


def locate_path(folder: Path, path: str) -> Path:
    """Return where ``path`` is in ``folder``, following no link below it.

    ``folder`` itself may be a link: a person named it.

    Raises DecoupleError for what is no `RelativePath`, and where a link, a file in the place of a folder, or something
    that is no regular file (a FIFO would block its reader) is there.
    """
    if not is_relative_path(path):
        raise DecoupleError(
            f"{folder}: {path[:200]!r} is no path inside it", next_step="restore the file that names it"
        )
    current = folder
    parts = PurePosixPath(path).parts
    for number, part in enumerate(parts, start=1):
        current = current / part
        try:
            mode = current.lstat().st_mode
        except FileNotFoundError:
            break
        wanted = stat.S_ISREG if number == len(parts) else stat.S_ISDIR
        if not wanted(mode):
            obstacle = "a link" if stat.S_ISLNK(mode) else f"no {'file' if number == len(parts) else 'folder'}"
            raise DecoupleError(f"{current}: is {obstacle}; nothing is read or written there", next_step="move it away")
    return folder / path
