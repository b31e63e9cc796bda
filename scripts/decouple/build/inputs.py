"""Compute one digest over what a stage is made from.

A second run with nothing changed takes seconds, a changed one builds.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from decouple.base import zips
from decouple.base.errors import DecoupleError
from decouple.base.files import compute_sha256, write_atomically
from decouple.base.git import PLAIN_DIFF, name_status, run_git, try_git
from decouple.base.path_names import is_relative_path
from decouple.base.untrusted_input import read_json
from decouple.build import tree_status


class Stamp(Struct, frozen=True):
    """Record in ``build/<release>/state`` a stage's inputs' digest and its wheel."""

    digest: str
    wheel: str
    sha256: str
    seconds: float
    objects: int
    content: str = ""
    """`hash_tree_content` of what was compiled; empty in stamps of earlier versions."""
    core: str = ""
    """Of stage 2: the SHA-256 of the wheel of our core that it was compiled against; empty where it was against another
    core, and in stamps of earlier versions."""


def read_tree_state(tree: Path, base: str = "HEAD", without: Sequence[str] = ()) -> tuple[str, str]:
    """Read the id of HEAD's git tree and a digest of what differs from ``base``.

    A person's new files differ, too; nothing counts that is below ``without``. The digest is empty when nothing does.
    Raises DecoupleError when ``tree`` is not an applied tree.
    """
    head = read_head_tree(tree)
    changed = _diff_files(tree, base, without)
    return head, hashlib.sha256(changed).hexdigest() if changed else ""


def read_head_tree(tree: Path) -> str:
    """Read the id of HEAD's git tree.

    Raises DecoupleError when ``tree`` is not an applied tree.
    """
    return _run_git(tree, "rev-parse", "HEAD^{tree}").decode().strip()


def hash_tree_content(tree: Path, without: Sequence[str]) -> str:
    """Return 64 hex digits over the tree's files but those in ``without``.

    They are the tracked files and a person's new ones, as they are now; those below ``without`` are left out. Raises
    DecoupleError when ``tree`` is not an applied tree.
    """
    left_out = _name_folders(without)
    listed = _run_git(tree, "ls-tree", "-r", "-z", "--full-tree", "HEAD").decode("utf-8", "surrogateescape").split("\0")
    kept = [line for line in listed if not f"{line.partition(chr(9))[2]}/".startswith(left_out)]
    changed = _diff_files(tree, "HEAD", without)
    return hashlib.sha256("\0".join(kept).encode("utf-8", "surrogateescape") + b"\0\0" + changed).hexdigest()


def _diff_files(tree: Path, base: str, without: Sequence[str]) -> bytes:
    """Return how the files differ from ``base``, a person's new ones behind it."""
    excluded = [f":(exclude,top){path}" for path in without]
    changed = _run_git(tree, "diff", base, *PLAIN_DIFF, "--binary", "--", ":/", *excluded)
    return changed + _describe_new_files(tree, _name_folders(without))


def _name_folders(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{path}/" for path in paths)


def _describe_new_files(tree: Path, left_out: tuple[str, ...]) -> bytes:
    """Return a line for each file that a person made and git does not know yet.

    It has the name and what the file holds. Nothing where there is none: the digests are then what they always were.
    """
    names = [name for name in tree_status.list_new_files(tree) if not f"{name}/".startswith(left_out)]
    lines = [f"new {name}\0{_describe_content(tree / name)}\n" for name in names]
    return "".join(lines).encode("utf-8", "surrogateescape")


def _describe_content(path: Path) -> str:
    if path.is_symlink():
        return f"link {path.readlink()}"
    # a folder is a repository of its own
    return f"{path.stat().st_mode & 0o100:o} {compute_sha256(path)}" if path.is_file() else ""


def list_tracked_files(tree: Path) -> frozenset[str]:
    """Return the files that git knows in the applied tree, by their paths in it.

    Raises DecoupleError.
    """
    return frozenset(_run_git(tree, "ls-files", "-z").decode("utf-8", "surrogateescape").split("\0"))


def _run_git(tree: Path, *arguments: str) -> bytes:
    if not (tree / ".git").exists():
        raise DecoupleError(f"{tree}: not an applied tree", next_step="run `decouple apply RELEASE` first")
    return run_git(*arguments, cwd=tree, next_step=f"{name_status(tree)} shows the state it is in")


def read_upstream_file(tree: Path, path: str) -> bytes:
    """Return a file as upstream has it: as in the applied tree's first commit.

    Raises DecoupleError.
    """
    roots = _run_git(tree, "rev-list", "--max-parents=0", "HEAD").decode().split()
    shown = try_git("show", f"{roots[0]}:{path}", cwd=tree)
    if shown.status:
        raise DecoupleError(f"{tree}: no {path} in its first commit", next_step="run `decouple apply RELEASE` again")
    return shown.out


def read_epoch(tree: Path) -> int:
    """Read SOURCE_DATE_EPOCH of a build.

    When the newest commit of the applied tree was committed (seconds since 1970).
    """
    done = try_git("log", "-1", "--format=%ct", cwd=tree)
    return int(done.out) if done.status == 0 and done.out.strip() else 0


def unpack_changed_files(wheel: Path, folder: Path) -> int:
    """Make ``folder`` hold what the wheel holds.

    A file that is there already with the same bytes keeps its time.

    So what is built against a header is built again only when that header changed. Returns how many files were written.
    May be interrupted and called again.
    """
    written = 0
    with zips.open_zip(wheel) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            if not is_relative_path(member.filename):
                raise DecoupleError(f"{wheel}: {member.filename!r} leads out of it", next_step="build the wheel again")
        wanted = {member.filename for member in members}
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_file() and path.relative_to(folder).as_posix() not in wanted:
                path.unlink()
            elif path.is_dir() and not any(path.iterdir()):
                path.rmdir()
        for member in members:
            path = folder / member.filename
            if path.is_file() and path.stat().st_size == member.file_size and compute_crc(path) == member.CRC:
                continue
            archive.extract(member, folder)
            path.chmod(0o755 if member.external_attr >> 16 & 0o100 else 0o644)
            written += 1
    return written


def compute_crc(path: Path) -> int:
    """Return the CRC-32 that a zip archive records of the file's content."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total = zlib.crc32(block, total)
    return total


def compute_digest(content: Mapping[str, Any]) -> str:
    """Return 64 hex digits over ``content`` (anything JSON can hold)."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_stamp(path: Path) -> Stamp | None:
    """Return the stamp in ``path``; None when there is none or it cannot be read."""
    try:
        return read_json(path, Stamp, mend="")
    except (OSError, DecoupleError):
        return None


def locate_wheel(stamp: Stamp, dist: Path, again: str) -> Path:
    """Return the path of a stage's wheel, whether it is there or not.

    Raises DecoupleError where other bytes lie there, with the command ``again`` that builds it.
    """
    wheel = dist / stamp.wheel
    if wheel.exists() and compute_sha256(wheel) != stamp.sha256:
        raise DecoupleError(
            f"{wheel}: other bytes than that stage made; another build or `decouple wheels` put them there",
            next_step=f"keep them in another folder if they are of use, and build it again: {again}",
        )
    return wheel


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Record a finished stage."""
    write_atomically(path, json.dumps(asdict(stamp), indent=2, sort_keys=True) + "\n")


def find_current_stamp(path: Path, digest: str, dist: Path) -> Stamp | None:
    """Return the stamp if it is of the same inputs and its wheel is the one it made."""
    stamp = read_stamp(path)
    if stamp is None or stamp.digest != digest:
        return None
    wheel = dist / stamp.wheel
    return stamp if wheel.exists() and compute_sha256(wheel) == stamp.sha256 else None
