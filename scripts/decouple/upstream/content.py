"""What an unpacked tree held when it was unpacked: kept beside it, and compared with what is read from it later.

The archives in the cache are verified by their hashes whenever they are opened; a tree that was unpacked from them is
read many times, and anything on the machine can edit it in between. Each reader compares just what it reads.

Python leaves ``__pycache__`` beside whatever it imports, and people run scripts in such a tree. What was not unpacked
and lies there is none of the tree's files: no reader sees it, and it damages nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import walk, write_atomically
from decouple.base.git import EXECUTABLE, REGULAR, SYMLINK

RECORD = "content"
"""The file beside the tree: mode, SHA-256 and path of each of its files, NUL between two of them."""

Known = Mapping[str, tuple[int, str]]
"""Path relative to the record's folder -> mode as git has it, SHA-256 of the content (of a link: of its target)."""


def write(folder: Path) -> None:
    """Record every file below the folders of ``folder``, which were just unpacked there. Raises OSError."""
    lines = [f"{mode:o} {digest} {path}\0" for path, (mode, digest) in sorted(_found(folder).items())]
    write_atomically(folder / RECORD, "".join(lines).encode("utf-8", "surrogateescape"))


def adopt(folder: Path) -> None:
    """Record what was unpacked before there were records as it is now; a cache that cannot be written stays without."""
    if not (folder / RECORD).exists():
        with contextlib.suppress(OSError):
            write(folder)


def known(tree: Path) -> Known | None:
    """What the files of ``tree`` were, by paths in it; None when nothing is recorded of it. Raises DecoupleError."""
    try:
        text = (tree.parent / RECORD).read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    prefix = f"{tree.name}/"
    try:
        lines = [line.split(" ", 2) for line in text.split("\0")[:-1]]  # twenty thousand, for each tree of a forecast
        modes = {mode: int(mode, 8) for mode in {mode for mode, _, _ in lines}}
        skip = len(prefix)
        return {path[skip:]: (modes[mode], digest) for mode, digest, path in lines if path.startswith(prefix)}
    except ValueError:
        raise changed(tree.parent / RECORD, tree) from None


def is_leftover(path: str, wanted: Known) -> bool:
    """Whether a file of a tree is Python's own cache, which was not unpacked."""
    return "__pycache__" in path.split("/")[:-1] and path not in wanted


def changed(path: Path, tree: Path) -> DecoupleError:
    """The error for a file of ``tree`` that is not as it was unpacked."""
    return DecoupleError(
        f"{path}: not as it was unpacked",
        next_step=f"rm -r {tree.parent} and run again: it is unpacked anew from the verified files",
    )


def state(path: str, info: os.stat_result) -> tuple[int, str]:
    """Mode and SHA-256 of one file or link."""
    if os.path.islink(path):  # noqa: PTH114 - thousands of times
        return SYMLINK, hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()  # noqa: PTH115
    with open(path, "rb") as source:  # noqa: PTH123
        return EXECUTABLE if info.st_mode & 0o100 else REGULAR, hashlib.file_digest(source, "sha256").hexdigest()


def check(tree: Path) -> None:
    """Read the whole of a tree that was unpacked into the cache. Raises DecoupleError naming a file that changed."""
    wanted = known(tree)
    if wanted is None:
        return
    found = {path.removeprefix(f"{tree.name}/"): one for path, one in _found(tree.parent, tree.name).items()}
    found = {path: one for path, one in found.items() if not is_leftover(path, wanted)}
    if found != wanted:
        first = min(path for path in {*found, *wanted} if found.get(path) != wanted.get(path))
        raise changed(tree / first, tree)


def _found(folder: Path, only: str = "") -> dict[str, tuple[int, str]]:
    prefix = f"{only}/" if only else ""
    found = {prefix + name: one for name, one in walk(folder / only)}
    return {
        name: state(f"{folder}/{name}", one.stat(follow_symlinks=False)) for name, one in found.items() if "/" in name
    }
