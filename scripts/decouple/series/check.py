"""Check what would become of every patch of a series on a given source.

No checkout is made. The series is applied in memory to the files it touches. A patch is taken whole or not at all;
behind one that does not apply the check goes on with the tree as it was before it, and says which of the failures that
follow may come from it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from decouple.base.checkout import Checkout
from decouple.patch import series_file
from decouple.patch.apply import Failure, File, FileResult, PatchResult, PlacedHunk, Source, Tree, apply_patch
from decouple.patch.parse import FilePatch, Patch
from decouple.patch.renames import find_renames


class Fit(enum.Enum):
    """The outcome that a patch would have."""

    CLEAN = "clean"
    OFFSET = "offset"
    """It applies, but hunks are not at the lines that they name."""
    AMBIGUOUS = "ambiguous"
    """It applies, and so does its reverse: it may be in the source already. Nobody but a person can tell."""
    MADE = "made anew"
    """Its text does not apply; its rules, its recipe or a merge make it for this source."""
    UPSTREAM = "already upstream"
    """It does not apply, and its reverse does: the source has it."""
    CONFLICT = "conflict"
    GONE = "target gone"
    """A file that it changes is not there."""
    UNSEEN = "not in this source"
    """None of its files is in a source that has only part of the tree."""


APPLIES = frozenset({Fit.CLEAN, Fit.OFFSET, Fit.AMBIGUOUS, Fit.MADE})

Remade = Callable[[Patch, Tree], tuple[Fit, Mapping[str, File | None]] | None]
"""What a patch whose text does not apply is on a tree when it is made anew, and what it changes; None: it cannot be."""


class Conflict(Struct, frozen=True):
    """A section of a patch that does not apply."""

    path: str
    failure: Failure
    present: bool = False
    """Whether the reverse of this section applies: this part of the patch is in the source already."""


class RuleDifferences(Struct, frozen=True):
    """What the rules of a generated patch say otherwise of a source; each a line."""

    moves: tuple[str, ...] = ()
    stops: tuple[Conflict, ...] = ()
    """What the rules do not settle: making the patch anew stops there."""


class PatchFit(Struct, frozen=True):
    """The verdict on one patch."""

    patch: Patch
    status: Fit
    offsets: tuple[tuple[str, PlacedHunk], ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    unseen: tuple[str, ...] = ()
    """Paths that a partial source does not have; nothing is known about them."""
    after: tuple[str, ...] = ()
    """Earlier patches that failed and touch the same files: perhaps only they are at fault."""
    notes: tuple[str, ...] = ()
    """What the rules of a generated patch say of this source and the patch does not."""
    changes: Mapping[str, File | None] = {}
    """What later patches found of it: path -> file behind it, None if deleted; empty where nothing of it was taken."""

    @property
    def furthest(self) -> int:
        """Return the largest offset, in lines."""
        return max((abs(placed.offset) for _, placed in self.offsets), default=0)


def load_series(project: Path, release: str) -> list[Patch]:
    """Load the patches of a release in order.

    Raises DecoupleError for the first that cannot be read.
    """
    checkout = Checkout(project)
    series = series_file.read_series(checkout.locate_series(release))
    return [entry.load_patch(checkout.patches).check_readable(empty=False) for entry in series.entries]


def list_wanted_paths(series: Iterable[Patch]) -> set[str]:
    """List every path whose content a check may read: a source fetches no other."""
    return {path for patch in series for path in patch.touched_paths}


def check_series(
    series: Sequence[Patch],
    source: Source,
    *,
    under: Sequence[Patch] = (),
    partial: bool = False,
    remade: Remade = lambda patch, tree: None,
    lost: Callable[[Patch, Tree], Sequence[str]] = lambda patch, tree: (),
    hidden: Callable[[Patch, Tree], Sequence[str]] = lambda patch, tree: (),
    ruled: Callable[[Patch], RuleDifferences | None] | None = None,
) -> list[PatchFit]:
    """Return one verdict for each patch.

    ``under``: patches that come before the series, such as Debian's own; those that do not apply are left out.
    ``partial``: the source lacks files of the real tree, so a missing one means nothing. ``remade`` is asked about
    a patch all of whose files are seen and that does not apply; ``lost`` about one that applies: what upstream has
    there that would go and come nowhere makes it a conflict. ``hidden`` names the files that rules read to make a
    patch, and that a partial source does not show: of such a patch nothing is known. ``ruled`` compares a generated
    patch with its rules: one that applies and leaves out what they would move is made anew, or stops where they stop.
    """
    tree = Tree(source)
    for patch in under:
        tree.update(apply_patch(patch, tree).changes)
    verdicts: list[PatchFit] = []
    failed: dict[str, list[str]] = {}  # path -> patches that touch it and did not apply
    taken: list[Patch] = []
    renamed: set[str] = set()  # paths that a rename of an unseen file would have made
    for patch in series:
        seen, unseen = _split_sections(patch, tree, renamed) if partial else (patch.files, ())
        if patch.files and not seen:
            verdicts.append(PatchFit(patch, Fit.UNSEEN, unseen=unseen))
            continue
        verdict, changes = _judge_patch(patch, seen, tree)
        if verdict.status in (Fit.CONFLICT, Fit.GONE) and not unseen and (made := remade(patch, tree)):
            verdict, changes = PatchFit(patch, made[0]), dict(made[1])
        if partial and verdict.status in (Fit.CONFLICT, Fit.GONE) and (more := hidden(patch, tree)):
            verdict, changes = PatchFit(patch, Fit.UNSEEN), {}
            unseen = tuple(dict.fromkeys((*unseen, *more)))
        if verdict.status in APPLIES and not unseen and (texts := lost(patch, tree)):
            conflicts = tuple(Conflict(text.partition(":")[0], Failure("lost", text)) for text in texts)
            verdict, changes = PatchFit(patch, Fit.CONFLICT, conflicts=conflicts), {}
        notes: tuple[str, ...] = ()
        if ruled and verdict.status is not Fit.UNSEEN and (found := ruled(patch)):
            notes = found.moves
            if verdict.status in APPLIES and found.stops:
                verdict = PatchFit(
                    patch, Fit.CONFLICT, conflicts=found.stops
                )  # what it moves, later patches find there
            elif found.stops:
                verdict = structs.replace(verdict, conflicts=(*found.stops, *verdict.conflicts))
            elif verdict.status in APPLIES and not unseen and (made := remade(patch, tree)):
                verdict, changes = PatchFit(patch, made[0]), dict(made[1])
        before = tuple(dict.fromkeys(name for path in patch.touched_paths for name in failed.get(path, ())))
        bad = verdict.status in (Fit.CONFLICT, Fit.GONE)
        if bad:
            verdict = structs.replace(verdict, conflicts=tuple(_explain_moves(verdict.conflicts, taken)))
        else:
            taken.append(patch)
        verdicts.append(
            structs.replace(verdict, unseen=unseen, after=before if bad else (), notes=notes, changes=changes)
        )
        tree.update(changes)
        if bad:
            for path in patch.touched_paths:
                failed.setdefault(path, []).append(patch.name)
    return verdicts


def _explain_moves(conflicts: Iterable[Conflict], before: Sequence[Patch]) -> Iterable[Conflict]:
    """Yield the conflicts.

    The message of one about a file that a patch ``before`` moved says where that file is.
    """
    moved = find_renames(before)
    for conflict in conflicts:
        if conflict.failure.kind == "gone" and (place := moved.get(conflict.path)):
            failure = structs.replace(conflict.failure, message=f"{conflict.failure.message}: {place}")
            yield structs.replace(conflict, failure=failure)
        else:
            yield conflict


def _split_sections(patch: Patch, tree: Tree, hidden: set[str]) -> tuple[Sequence[FilePatch], tuple[str, ...]]:
    """Return the sections that can be judged, and the paths of the others.

    Those have their old file in a partial source, or need none.
    """
    seen, unseen = [], []
    for section in patch.files:
        old = section.old_path
        if old is not None and section.creates is False and (old in hidden or tree.get(old) is None):
            unseen.append(old)
            if section.new_path is not None:
                hidden.add(section.new_path)
        else:
            seen.append(section)
    return seen, tuple(unseen)


def _judge_patch(patch: Patch, seen: Sequence[FilePatch], tree: Tree) -> tuple[PatchFit, dict[str, File | None]]:
    forward = apply_patch(patch, tree, files=seen)
    if forward.applies and _is_undo_impossible(seen, tree):
        offsets = tuple((section.path, placed) for section, placed in forward.offsets)
        return PatchFit(patch, Fit.OFFSET if offsets else Fit.CLEAN, offsets=offsets), dict(forward.changes)
    backward = apply_patch(patch, tree, reverse=True, files=seen)
    undoable = backward.applies and _has_new_modes(seen, tree)
    if forward.applies:
        offsets = tuple((section.path, placed) for section, placed in forward.offsets)
        status = Fit.AMBIGUOUS if undoable else Fit.OFFSET if offsets else Fit.CLEAN
        return PatchFit(patch, status, offsets=offsets), dict(forward.changes)
    if undoable:
        return PatchFit(patch, Fit.UPSTREAM), {}
    conflicts = tuple(_list_conflicts(forward, backward))
    gone = any(conflict.failure.kind == "gone" for conflict in conflicts)
    return PatchFit(patch, Fit.GONE if gone else Fit.CONFLICT, conflicts=conflicts), {}


def _is_undo_impossible(files: Sequence[FilePatch], tree: Tree) -> bool:
    """Say whether a file is not there that a rename made.

    That tells without applying hundreds of them backwards.
    """
    return any(
        section.rename and section.new_path is not None and tree.get(section.new_path) is None for section in files
    )


def _has_new_modes(files: Sequence[FilePatch], tree: Tree) -> bool:
    """Say whether every file that changes its mode has the new one.

    git takes a change of mode both ways at any time.
    """
    for section in files:
        if section.has_mode_change and section.new_path:
            file = tree.get(section.new_path)
            if file is None or file.mode != section.new_mode:
                return False
    return True


def _list_conflicts(forward: PatchResult, backward: PatchResult) -> Iterable[Conflict]:
    back = {id(result.file): result for result in backward.files}
    for result in forward.files:
        if result.failure:
            yield Conflict(result.file.path, result.failure, _is_undone(back.get(id(result.file))))


def _is_undone(result: FileResult | None) -> bool:
    return result is not None and result.failure is None
