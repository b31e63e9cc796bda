"""How big a patch is: lines added, removed and quoted, files and renames."""

from __future__ import annotations

from msgspec import Struct

from decouple.patch.parse import Patch


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
