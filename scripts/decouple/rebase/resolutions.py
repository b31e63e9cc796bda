"""Remember how a person settled a conflict, or why a patch was left out.

It is used again for the same conflict. One file per pair of releases, ``series/resolutions/<from>-<to>.toml``; all of
them are looked into. A resolution is found by the Decouple-Id and by the conflicts themselves
(``decouple.rebase.resolution_encoding``), so it outlives other tags, other places in the file and new bodies of the
patch. It holds our own lines and hashes of upstream's, never upstream's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from decouple.base import toml
from decouple.base.checkout import Checkout
from decouple.base.errors import DecoupleError
from decouple.base.files import write_atomically
from decouple.base.path_names import RelativePath, is_relative_path
from decouple.rebase.resolution_encoding import Hex, SettledChange

_MEND = "restore it from git"
_REPORT = "report this; the file is as it was"
_HEAD = """\
# How conflicts were settled, written by `decouple rebase`. `+` is a line of ours (`x`: in hex, where it is no UTF-8),
# `=` the hash of a line of upstream's; docs/rebase.md, "Resolutions".

"""


class SettledFile(Struct, frozen=True):
    """What was made of one file."""

    path: RelativePath
    change: tuple[SettledChange, ...] = ()
    gone: bool = False
    """The file was deleted."""
    lines: tuple[str, ...] | None = None
    """All of it, where it is a file of ours that the merge did not make."""
    hex: Hex | None = None
    """The same of a file that is no UTF-8: its bytes."""
    mode: Literal["", "100644", "100755", "120000"] = ""
    """As git prints it; empty where it is the mode that the merge gives, or a regular file of ours."""


class Resolution(Struct, frozen=True):
    """A settled conflict of one patch."""

    patch: str
    """Its Decouple-Id."""
    name: str
    """Its name in the series that it was carried from, for people."""
    tree: str
    """Id of the tree of the release that it was made on."""
    conflict: tuple[str, ...]
    """Every conflict of the patch, in order of paths: all must be the same for the resolution to count."""
    skip: bool = False
    """The patch was left out."""
    reason: str = ""
    since: str = ""
    """The release that it was settled on; it holds from there on, and on another one where the conflict is the same."""
    file: tuple[SettledFile, ...] = ()


class _ResolutionFile(Struct, frozen=True):
    resolution: tuple[Resolution, ...] = ()


def make_path(project: Path, old: str, new: str) -> Path:
    """Return where the resolutions between two releases are kept."""
    return Checkout(project).resolutions / f"{old}-{new}.toml"


def load_resolutions(path: Path) -> list[Resolution]:
    """Read all resolutions in a file; none when it does not exist.

    Raises DecoupleError naming what is wrong.
    """
    return list(toml.read_toml(path, _ResolutionFile, mend=_MEND).resolution) if path.exists() else []


def load_all_resolutions(project: Path) -> list[Resolution]:
    """Read the resolutions of every pair of releases. Raises DecoupleError."""
    return [
        resolution
        for path in sorted(Checkout(project).resolutions.glob("*.toml"))
        for resolution in load_resolutions(path)
    ]


def find_resolutions(known: Sequence[Resolution], patch: str, conflict: Sequence[str]) -> list[Resolution]:
    """Return the resolutions of these very conflicts of this patch."""
    return [resolution for resolution in known if resolution.patch == patch and resolution.conflict == tuple(conflict)]


def remember_resolution(path: Path, resolution: Resolution) -> None:
    """Add one, in place of an older one of the same conflicts.

    Raises DecoupleError where the file cannot hold it; then it stays as it was.
    """
    for file in resolution.file:
        if not is_relative_path(file.path):
            raise DecoupleError(
                f"{path}: cannot hold how {file.path!r} was settled",
                next_step="give the file a name in UTF-8 without control characters and backslashes, or leave the "
                "patch out: decouple rebase --skip",
            )
    kept = [
        other
        for other in load_resolutions(path)
        if (other.patch, other.conflict) != (resolution.patch, resolution.conflict)
    ]
    rows = sorted([*kept, resolution], key=lambda other: (other.name, other.conflict))
    text = _HEAD + f"schema = {toml.SCHEMA}\n" + "".join(_format_resolution(other) for other in rows)
    if list(toml.parse_toml(text, _ResolutionFile, path, mend=_REPORT).resolution) != rows:
        raise DecoupleError(f"{path}: what was settled does not read back as it was", next_step=_REPORT)
    write_atomically(path, text)


def _format_resolution(resolution: Resolution) -> str:
    lines = ["", "[[resolution]]"]
    lines += [f"{key} = {toml.format_string(getattr(resolution, key))}" for key in ("patch", "name", "tree")]
    lines.append(f"conflict = {_format_array(resolution.conflict)}")
    if resolution.skip:
        lines.append("skip = true")
    if resolution.reason:
        lines.append(f"reason = {toml.format_string(resolution.reason)}")
    if resolution.since:
        lines.append(f"since = {toml.format_string(resolution.since)}")
    for file in resolution.file:
        lines += ["", "[[resolution.file]]", f"path = {toml.format_string(file.path)}"]
        if file.gone:
            lines.append("gone = true")
        if file.mode:
            lines.append(f"mode = {toml.format_string(file.mode)}")
        if file.lines is not None:
            lines.append(f"lines = {_format_array(file.lines)}")
        if file.hex is not None:
            lines.append(f"hex = {toml.format_string(file.hex)}")
        for change in file.change:
            lines += ["", "[[resolution.file.change]]"]
            lines += [f"{key} = {_format_array(getattr(change, key))}" for key in ("before", "gone", "after", "put")]
    return "\n".join(lines) + "\n"


def _format_array(words: Sequence[str]) -> str:
    if sum(map(len, words)) < 70 and len(words) < 4:
        return "[" + ", ".join(map(toml.format_string, words)) + "]"
    return "[\n" + "".join(f"    {toml.format_string(word)},\n" for word in words) + "]"
