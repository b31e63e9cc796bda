"""Compare the tree, the series and the patches: what ``decouple status`` says."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from decouple.base.checkout import Checkout
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.stack.engine import Stack

EDITED = "edited in the tree"
"""The state of a patch whose commit is another one now."""


class PatchSize(Struct, frozen=True):
    """The size of a patch, in lines; renames without hunks count nothing."""

    name: str
    added: int
    removed: int
    context: int
    """Upstream lines that the patch quotes around its changes."""
    files: int
    renames: int
    in_file: bool
    """Whether it changes lines at all: a pure relocation does not."""


def measure_patch(name: str, patch: Patch) -> PatchSize:
    """Count a patch's lines."""
    kinds = [line.kind for file in patch.files for hunk in file.hunks for line in hunk.lines]
    return PatchSize(
        name,
        added=kinds.count("+"),
        removed=kinds.count("-"),
        context=kinds.count(" "),
        files=len(patch.files),
        renames=sum(file.rename for file in patch.files),
        in_file=bool(kinds),
    )


class PatchStatus(Struct, frozen=True):
    """One line of ``decouple status``."""

    name: str
    state: str
    """"applied", "unapplied", "changed on disk" (applied, but with other bytes), "edited in the tree"."""
    size: PatchSize
    offsets: int = 0


class StackStatus(Struct, frozen=True):
    """What ``decouple status`` says."""

    release: str
    tree: Path
    applied: bool
    """Whether there is an applied tree at all."""
    base: str
    patches: tuple[PatchStatus, ...]
    overlay: str
    """"laid", "not laid", "out of date"."""
    commits: tuple[str, ...] = ()
    """Titles of commits in the tree that are in no patch."""
    edited: tuple[str, ...] = ()
    """Files with uncommitted edits."""
    notes: tuple[str, ...] = ()
    source: str = "auto"
    """Where the tree's source came from, as ``apply`` was told."""

    @property
    def next_step(self) -> str:
        """Return the command that makes tree, series and patches agree; "" where they do."""
        if self.is_clean:
            return ""
        if self.commits or self.edited or any(patch.state == EDITED for patch in self.patches):
            return shlex.join(["decouple", "refresh", self.release])
        of_source = [] if self.source == "auto" else ["--source", self.source]
        return shlex.join(["decouple", "apply", self.release, *of_source])

    @property
    def is_clean(self) -> bool:
        """Return whether tree, series and patches agree completely."""
        whole = all(patch.state == "applied" for patch in self.patches)
        return self.applied and whole and self.overlay == "laid" and not self.commits and not self.edited


def read_status(project: Path, release: str) -> StackStatus:
    """Read how far tree, series and patches agree.

    It finishes a command that was cut off, and changes nothing else.
    """
    places = Checkout(project).find_series(release)
    entries = series_file.read_series(places.series).entries
    patches = [entry.load_patch(places.patches) for entry in entries]
    sizes = {patch.name: measure_patch(patch.name, patch.check_readable()) for patch in patches}
    if not (places.tree / ".git" / "decouple" / "state.json").is_file():
        none = tuple(PatchStatus(patch.name, "unapplied", sizes[patch.name]) for patch in patches)
        return StackStatus(release, places.tree, False, "", none, "not laid")
    with Stack.open(places) as stack:
        state = stack.state
        records = {item.name: item for item in state.applied}
        known = {item.commit for item in state.applied} | ({state.overlay.commit} if state.overlay else set())
        chain = stack.read_commits()
        here = {commit for commit, _, _ in chain}
        strange = tuple(text.title for commit, _, text in chain if commit not in known)
        rows: list[PatchStatus] = []
        for patch in patches:
            record = records.get(patch.name)
            if record is None:
                word = "unapplied"
            elif record.commit not in here:
                word = EDITED
            elif record.sha256 != patch.sha256:
                word = "changed on disk"
            else:
                word = "applied"
            offsets = len(record.offsets) if record else 0
            rows.append(PatchStatus(patch.name, word, sizes[patch.name], offsets))
        gone = [name for name in records if name not in sizes]
        notes = [*stack.recovered, *(f"{name} is applied and no longer in the series" for name in gone)]
        edited = stack.list_edited_files()
        overlay = "not laid"
        if state.overlay:
            fresh = stack.write_overlay(state, patches, places.series.read_bytes()) if not gone else None
            overlay = "laid" if fresh == state.overlay else "out of date"
        return StackStatus(
            release, places.tree, True, state.base, tuple(rows), overlay, strange, edited, tuple(notes),
            state.source.get("source", "auto"),
        )  # fmt: skip
