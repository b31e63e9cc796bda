"""What the stack needs to know of a patch file: its header, the paths it touches, where its hunks are."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.patch.parse import FilePatch, Patch, Problem, scan
from decouple.patch.seriesfile import Entry as SeriesEntry


@dataclass(frozen=True)
class Touched:
    """One file of a patch: ``old`` is None for a new file, ``new`` for a deleted one; both differ for a rename."""

    old: str | None
    new: str | None
    copied: bool
    may_delete: bool
    """A traditional diff with an empty new side: the tree decides whether the file goes."""
    hunks: tuple[int, ...]
    """First old line of each hunk."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the patch reads or writes here."""
        return tuple(path for path in (self.old, self.new) if path)

    @property
    def path(self) -> str:
        """The path to name in messages."""
        return self.new or self.old or "?"


@dataclass(frozen=True)
class PatchText:
    """A patch file as bytes, with its name in the series."""

    name: str
    data: bytes
    strip: int = 1

    @cached_property
    def sha256(self) -> str:
        """Of the file's bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def parsed(self) -> Patch:
        """The patch as our reader sees it. Raises DecoupleError with file and line where it cannot be read."""
        if self.unreadable:
            raise DecoupleError(f"{self.name}: {self.unreadable}", next_step="`decouple lint` lists every fault")
        return self._scanned[0]

    @property
    def unreadable(self) -> str | None:
        """The first thing that keeps the patch from being read, with its line."""
        problems = self._scanned[1]
        return f"line {problems[0].line}: {problems[0].message}" if problems else None

    @cached_property
    def _scanned(self) -> tuple[Patch, tuple[Problem, ...]]:
        return scan(self.data, name=self.name, strip=self.strip)

    @property
    def header(self) -> bytes:
        """Everything in front of the first diff; all of the file where there is none."""
        patch = self.parsed
        return patch.header_bytes if patch.files else self.data

    @property
    def header_text(self) -> str:
        """The header as text."""
        return self.header.decode("utf-8", "surrogateescape")

    @property
    def body(self) -> bytes:
        """The diffs and whatever follows them."""
        return self.data[len(self.header) :]

    @cached_property
    def touched(self) -> tuple[Touched, ...]:
        """The files of the patch, in order."""
        return tuple(_touched(file) for file in self.parsed.files)

    @property
    def paths(self) -> frozenset[str]:
        """Every path the patch may change."""
        changed = ((t.new, None if t.copied else t.old) for t in self.touched)
        return frozenset(path for pair in changed for path in pair if path)


def load(patches: Path, entry: SeriesEntry) -> PatchText:
    """Read one patch of a series. Raises DecoupleError if the file is not there."""
    path = patches / entry.name
    try:
        return PatchText(entry.name, path.read_bytes(), entry.strip)
    except FileNotFoundError:
        raise DecoupleError(
            f"patch file {path} is in the series but does not exist",
            next_step="restore it, or take its line out of the series",
        ) from None


def _touched(file: FilePatch) -> Touched:
    return Touched(
        old=None if file.creates else file.old_path,
        new=None if file.deletes else file.new_path,
        copied=file.copy,
        may_delete=file.deletes is None,
        hunks=tuple(hunk.old_start for hunk in file.hunks),
    )
