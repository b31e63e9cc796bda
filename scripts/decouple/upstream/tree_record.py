"""Record what an unpacked tree held, and compare what is read from it later.

The record is kept beside the tree. The archives in the cache are verified by their hashes whenever they are opened; a
tree that was unpacked from them is read many times, and anything on the machine can edit it in between. Each reader
compares just what it reads. Who can edit a tree can edit the record beside it: so that has a seal of each user who
unpacked the archive (``base.seal``).

Python leaves ``__pycache__`` beside whatever it imports, and people run scripts in such a tree. What was not unpacked
and lies there is none of the tree's files: no reader sees it, and it damages nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from decouple.base import seal
from decouple.base.errors import DecoupleError
from decouple.base.files import walk_files, write_atomically
from decouple.base.git import EXECUTABLE, REGULAR, SYMLINK
from decouple.base.untrusted_input import JSON_BOUND, read_bounded

RECORD = "content"
"""The file beside the tree: mode, SHA-256 and path of each of its files, NUL between two of them. Beside it a seal of
each user: ``content.USER``."""
PROVENANCE = "provenance.json"
"""Where the tree came from, beside it (`upstream.fetched`); the seal is for both."""
_BOUND = 64 << 20  # bytes; 15,000 files have about two million
_SEAL_BOUND = 64

Known = Mapping[str, str]
"""Path in a tree -> what the record says of it: mode and SHA-256 as `format_state` writes them."""
_STATE = len("100644 ") + hashlib.sha256().digest_size * 2


def record_files(folder: Path, of: Path | None = None) -> None:
    """Record files below the folders of ``folder``, just unpacked, with a user's seal.

    ``of`` is what the folder will be called, where it moves there when it is whole. Raises OSError.
    """
    lines = [f"{state} {path}\0" for path, state in sorted(_read_files(folder).items())]
    write_atomically(folder / RECORD, "".join(lines).encode("utf-8", "surrogateescape"))
    _write_seal(folder, of or folder)


def renew_records(folder: Path, fresh: Path) -> None:
    """Record of ``folder`` what was unpacked to ``fresh`` just now.

    Others may have unpacked or changed ``folder``. Its files stay: who reads one that is not as it was there is told.
    Raises OSError.
    """
    record_files(fresh)
    for name in (PROVENANCE, RECORD):
        if (fresh / name).exists():
            write_atomically(folder / name, (fresh / name).read_bytes())
    _write_seal(folder, folder)


def is_ours(folder: Path) -> bool:
    """Return whether the records of ``folder`` are as this user left them.

    Then what they say can be believed. A user who can have no key believes those of a folder of their own that nobody
    else may write to.
    """
    mine = seal.read_owner_id()
    try:
        if mine is not None:
            kept = seal.remove_seal(_make_seal_name(folder), read_bounded(folder / f"{RECORD}.{mine}", _SEAL_BOUND))
            return kept == _hash_records(folder)
        info = folder.stat()
        return (
            seal.read_owner_id(make=True) is None
            and info.st_uid == os.geteuid()
            and not info.st_mode & 0o022
            and bool(_hash_records(folder))
        )
    except (OSError, DecoupleError):
        return False


def read_known_files(tree: Path) -> Known | None:
    """Read what the files of ``tree`` were, by paths in it.

    None when nothing is recorded of it. Raises DecoupleError where the record is not this user's.
    """
    folder = tree.parent
    if not is_ours(folder):
        if (folder / PROVENANCE).exists():
            raise make_change_error(folder / RECORD, tree)
        return None
    text = read_bounded(folder / RECORD, _BOUND).decode("utf-8", "surrogateescape")
    prefix = f" {tree.name}/"  # nothing is read but by its place: thousands of lines, for each tree of a forecast
    skip = _STATE + len(prefix)
    return {line[skip:]: line[:_STATE] for line in text.split("\0") if line.startswith(prefix, _STATE)}


def _write_seal(folder: Path, of: Path) -> None:
    mine = seal.read_owner_id(make=True)
    data = seal.add_seal(_make_seal_name(of), _hash_records(folder))
    if mine is not None and data is not None:
        write_atomically(folder / f"{RECORD}.{mine}", data)


def _make_seal_name(folder: Path) -> str:
    """Return what the seal is for: a release, and which of its sources."""
    return f"{folder.parent.name}/{folder.name}"


def _hash_records(folder: Path) -> bytes:
    """Return the SHA-256 of what is recorded. Raises OSError, DecoupleError."""
    digest = hashlib.sha256(read_bounded(folder / RECORD, _BOUND))
    with contextlib.suppress(FileNotFoundError):
        digest.update(b"\0\0" + read_bounded(folder / PROVENANCE, JSON_BOUND))
    return digest.digest()


def is_leftover(path: str, wanted: Known) -> bool:
    """Return whether a file of a tree is Python's own cache, which was not unpacked."""
    return "__pycache__" in path.split("/")[:-1] and path not in wanted


def make_change_error(path: Path, tree: Path) -> DecoupleError:
    """Make the error for a file of ``tree`` that is not as it was unpacked."""
    return DecoupleError(
        f"{path}: not as it was unpacked",
        next_step=f"rm -r {shlex.quote(str(tree.parent))} and run again: it is unpacked anew from the verified files",
    )


def format_state(mode: int, digest: str) -> str:
    """Write a file's state: its mode as git has it, the SHA-256 of its content.

    Of a link it is that of its target.
    """
    return f"{mode:o} {digest}"


def _read_file_state(path: str, info: os.stat_result) -> str:
    """Read the state of one file or link."""
    if os.path.islink(path):  # noqa: PTH114 - thousands of times
        return format_state(SYMLINK, hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest())  # noqa: PTH115
    with open(path, "rb") as source:  # noqa: PTH123
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    return format_state(EXECUTABLE if info.st_mode & 0o100 else REGULAR, digest)


def check_tree(tree: Path) -> None:
    """Read a whole tree unpacked into the cache.

    Raises DecoupleError naming a file that changed.
    """
    wanted = read_known_files(tree)
    if wanted is None:
        return
    files = {
        path.removeprefix(f"{tree.name}/"): file_state
        for path, file_state in _read_files(tree.parent, tree.name).items()
    }
    files = {path: file_state for path, file_state in files.items() if not is_leftover(path, wanted)}
    if files != wanted:
        first = min(path for path in {*files, *wanted} if files.get(path) != wanted.get(path))
        raise make_change_error(tree / first, tree)


def _read_files(folder: Path, only: str = "") -> dict[str, str]:
    prefix = f"{only}/" if only else ""
    files = {prefix + name: entry for name, entry in walk_files(folder / only)}
    return {
        name: _read_file_state(f"{folder}/{name}", entry.stat(follow_symlinks=False))
        for name, entry in files.items()
        if "/" in name
    }
