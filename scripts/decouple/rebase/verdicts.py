"""What can become of a patch on another release, and the evidence for it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct

from decouple.stack.trees import TreeEntry


class Verdict(enum.Enum):
    """What became of one patch. The value is what reports print."""

    UNMODIFIED = "unmodified"
    """Applies as it is, every hunk at its line: the new series lists the file from its old home."""
    OFFSET = "offset"
    """Applies with every context line, elsewhere; a 3-way merge puts it in the same place."""
    MERGED = "merged"
    """The text had to change (context, renamed file); a 3-way merge did it without conflict."""
    REGENERATED = "regenerated"
    """Made anew, header and all, from rules for this release."""
    MADE = "made by its recipe"
    """Its body was made anew by its recipe; the header stays."""
    REPLAYED = "replayed"
    """A stored resolution of exactly this conflict was used; it wants a review."""
    RESOLVED = "resolved"
    """A person settled the conflict in this rebase."""
    ALREADY_UPSTREAM = "already upstream"
    """The release holds the change: merging it changes nothing."""
    NOT_SEEN = "not seen"
    """The source is partial and does not show every file that it changes: nothing is known."""
    SKIPPED = "skipped"
    """A person left it out in this rebase."""
    AMBIGUOUS = "ambiguous"
    """It applies forwards and backwards: the text cannot say whether the release holds the change."""
    CONFLICT = "conflict"
    """Upstream changed the same lines."""
    TARGET_GONE = "target gone"
    """A file that it changes is not in the release, under no name that a rename search finds."""

    @property
    def is_stop(self) -> bool:
        """Return whether a person has to decide before the rebase goes on."""
        return self in (Verdict.AMBIGUOUS, Verdict.CONFLICT, Verdict.TARGET_GONE)

    @property
    def is_kept(self) -> bool:
        """Return whether the patch is in the new series."""
        return not self.is_stop and self not in (Verdict.ALREADY_UPSTREAM, Verdict.NOT_SEEN, Verdict.SKIPPED)


class Note(Struct, frozen=True):
    """One piece of evidence: a file, where in it, and what it is.

    ``line`` is 1-based, of the new release; 0 is the whole file.
    """

    path: str
    line: int
    text: str
    expected: tuple[str, ...] = ()
    """Lines that the patch wants to find, without their newlines."""
    found: tuple[str, ...] = ()
    """Lines that stand there instead."""
    upstream: tuple[str, ...] = ()
    """What upstream did to the lines concerned between the releases, as the lines of a diff."""
    commits: tuple[str, ...] = ()
    """Upstream commits that touched these lines between the releases, newest first, as "<id> <subject>"."""


class CarryResult(Struct, frozen=True):
    """A patch on the new release.

    ``changes`` is what it does to the new tree, None where a person must decide.
    """

    name: str
    verdict: Verdict
    changes: Mapping[str, TreeEntry | None] | None = None
    notes: tuple[Note, ...] = ()
    body: bytes | None = None
    """New diff text; None where the old file serves or there is nothing to apply."""
