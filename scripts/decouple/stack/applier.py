"""Put patches on a tree without a checkout.

git applies them to a small index that holds only the files they touch. An index of just those files makes the time of a
push depend on the patch and not on the tree. ``git apply`` has no fuzz; it may find a hunk at another line, which is
reported as an :class:`Offset`. What git says is not taken on trust: the files that changed must be exactly the files
the patch names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from decouple.base.errors import DecoupleError
from decouple.base.git import SUBMODULE, TREE, Repository
from decouple.patch.apply import find_path_fault
from decouple.patch.parse import Patch
from decouple.patch.renames import find_renames
from decouple.stack.trees import TreeEntry, find_blocker, list_parents, read_entries, read_index

_CHECKING = re.compile(r"Checking patch (.*)\.\.\.\Z")
_OFFSET = re.compile(r"Hunk #(\d+) succeeded at (\d+) \(offset (-?\d+) lines?\)")
_FAILED = re.compile(r"error: patch failed: (.*):(\d+)\Z")


class Offset(Struct, frozen=True):
    """A hunk that git found away from where the patch says it is."""

    path: str
    hunk: int
    line: int
    """Line where it was put."""
    lines: int
    """How far that is from the place the patch names."""

    def __str__(self) -> str:
        return f"{self.path}: hunk {self.hunk} at line {self.line} (offset {self.lines:+d})"


class AppliedPatch(Struct, frozen=True):
    """An applied patch: what became of each path (None: deleted), and its offsets."""

    patch: Patch
    changes: Mapping[str, TreeEntry | None]
    offsets: tuple[Offset, ...] = ()


class ApplyError(DecoupleError):
    """A patch does not apply. ``applied`` holds the outcomes of those before it."""

    def __init__(self, patch: Patch, why: str, *, next_step: str | None = None) -> None:
        super().__init__(
            f"{patch.name}: {why}",
            next_step=next_step
            or "correct the patch; `decouple check RELEASE` shows every patch's state without a tree",
        )
        self.patch = patch
        self.why = why
        self.applied: tuple[AppliedPatch, ...] = ()


def explain_moved_files(error: ApplyError, before: Sequence[Patch]) -> ApplyError:
    """Add the new places of files to ``error`` as its next step.

    ``before`` are the patches that were applied and may have moved what it looks for.
    """
    moved = find_renames(before)
    wanted = [file.old_path for file in error.patch.files if file.old_path in moved]
    if not wanted:
        return error
    first = moved[wanted[0] or ""]
    more = f", and {len(wanted) - 1} more of its files are elsewhere" if len(wanted) > 1 else ""
    explained = ApplyError(
        error.patch, error.why, next_step=f"write the patch for {first.path}: {first.patch} moved it{more}"
    )
    explained.applied = error.applied
    return explained


def check_file_kinds(patch: Patch) -> None:
    """Raise ApplyError for a change that could be pushed and never be refreshed.

    Export takes text files only.
    """
    for file in patch.files:
        if file.binary:
            raise ApplyError(
                patch,
                f"line {file.line}: {file.path} is a binary file, and a patch holds text only",
                next_step="put the file below third_device/ of the project, and take it out of the patch",
            )
        if file.is_submodule:
            raise ApplyError(
                patch,
                f"line {file.line}: {file.path} is a submodule, and a series does not move submodules",
                next_step="take it out of the patch: the source manifest pins submodules",
            )


class _Batch(Struct):
    patches: list[Patch] = []
    changed: set[str] = set()

    def can_take(self, patch: Patch) -> bool:
        # touched: git copies a file as it was before all of one input
        return not self.patches or (
            self.patches[0].strip == patch.strip and self.changed.isdisjoint(patch.touched_paths)
        )


def apply_patches(repository: Repository, tree: str, patches: Sequence[Patch], scratch: Path) -> list[AppliedPatch]:
    """Apply ``patches`` in order on top of ``tree`` (a tree or commit id).

    Nothing but new objects is written. Neighbours go to git in one call where none reads what one before it changes.
    ``scratch`` is where the small index is put. Raises ApplyError naming patch, file and hunk; it carries the outcomes
    of the patches that did apply.
    """
    state: dict[str, TreeEntry | None] = {}  # what the patches so far made of each path
    readable = [patch for patch in patches if not patch.problems]
    entries = read_entries(repository, tree, {path for patch in readable for path in patch.touched_paths})
    base = _BaseTree(repository, tree, entries)
    outcomes: list[AppliedPatch] = []
    batch = _Batch()
    try:
        for patch in patches:
            if patch.problems:
                if batch.patches:
                    outcomes += _apply_batch(base, state, batch.patches, scratch)
                    batch = _Batch()
                first = patch.problems[0]
                raise ApplyError(patch, f"line {first.line}: {first.message}", next_step=first.next_step)
            check_file_kinds(patch)
            if not batch.can_take(patch):
                outcomes += _apply_batch(base, state, batch.patches, scratch)
                batch = _Batch()
            batch.patches.append(patch)
            batch.changed |= patch.changed_paths
        if batch.patches:
            outcomes += _apply_batch(base, state, batch.patches, scratch)
    except ApplyError as error:
        error.applied = (*outcomes, *error.applied)
        raise
    return outcomes


class _BaseTree(Struct, frozen=True):
    """The tree that patches go onto, and what it holds at every path they name."""

    repository: Repository
    tree: str
    entries: Mapping[str, TreeEntry]


def _apply_batch(
    base: _BaseTree, state: dict[str, TreeEntry | None], patches: Sequence[Patch], scratch: Path
) -> list[AppliedPatch]:
    """Apply the patches of a batch together, else singly to learn which fails."""
    if len(patches) > 1:
        try:
            return _apply_at_once(base, state, patches, scratch)
        except ApplyError:
            pass
    done: list[AppliedPatch] = []
    for patch in patches:
        try:
            done += _apply_at_once(base, state, [patch], scratch)
        except ApplyError as error:
            error.applied = tuple(done)
            raise
    return done


def _apply_at_once(
    base: _BaseTree, state: dict[str, TreeEntry | None], patches: Sequence[Patch], scratch: Path
) -> list[AppliedPatch]:
    involved = {path for patch in patches for path in patch.touched_paths}
    before = _find_present_entries(base, state, involved)
    for patch in patches:
        for file in patch.files:
            if file.new_path and (blocker := find_blocker(before, file.new_path)):
                raise ApplyError(patch, f"{file.new_path} cannot be written: {blocker} is in the way")
    after, offsets = _run_git_apply(base.repository, before, [patch for patch in patches if patch.files], scratch)
    outcomes = [_check_changes(patch, before, after, offsets) for patch in patches]
    named = {path for patch in patches for path in patch.changed_paths}
    files = {path: entry for path, entry in before.items() if entry.mode != TREE}
    for path in (files.keys() | after.keys()) - named:
        if files.get(path) != after.get(path):
            raise ApplyError(patches[0], f"git changed {path}, which the patch does not name to our reader")
    for outcome in outcomes:
        state.update(outcome.changes)
    return outcomes


def _find_present_entries(
    base: _BaseTree, state: Mapping[str, TreeEntry | None], paths: set[str]
) -> dict[str, TreeEntry]:
    """Return what stands at ``paths`` and in their way.

    That is the base as ``state`` changed it.
    """
    reach = paths | {parent for path in paths for parent in list_parents(path)}
    present = {path: entry for path, entry in base.entries.items() if path in reach}
    for path in state.keys() & reach:
        entry = state[path]
        if entry is None:
            present.pop(path, None)
        else:
            present[path] = entry
    # a path that the series so far made a directory of
    folders = {parent for path, entry in state.items() if entry for parent in list_parents(path)}
    present |= {path: TreeEntry(TREE, "") for path in paths & folders}
    if any(entry.mode == TREE for entry in present.values()):
        # a directory that the series so far emptied no longer stands in the way
        for path in [path for path, entry in present.items() if entry.mode == TREE]:
            listed = base.repository.run("ls-tree", "-r", "-z", "--name-only", base.tree, "--", path + "/")
            names = listed.split(b"\0")
            inside = {name.decode("utf-8", "surrogateescape") for name in names if name}
            inside |= {name for name, entry in state.items() if entry and name.startswith(path + "/")}
            if all(name in state and state[name] is None for name in inside):
                del present[path]
    return present


def _run_git_apply(
    repository: Repository, before: Mapping[str, TreeEntry], patches: Sequence[Patch], scratch: Path
) -> tuple[dict[str, TreeEntry], dict[str, list[Offset]]]:
    """Run ``git apply`` on an index made of ``before``.

    Returns the index afterwards and the offsets per path.
    """
    if not patches:
        return dict(before), {}
    if entries := _apply_renames(before, patches):
        return entries, {}
    scratch.mkdir(parents=True, exist_ok=True)
    index = _prepare_index_path(scratch)
    lines = "".join(f"{entry.mode:06o} {entry.id} 0\t{path}\0" for path, entry in before.items() if entry.mode != TREE)
    repository.run("update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"), index=index)
    answer = repository.try_run(
        "apply",
        "--cached",  # only the index: the work tree is moved later, and last
        "--whitespace=nowarn",  # lint judges white space, not the applier
        "-v",  # offsets are told only with it
        f"-p{patches[0].strip}",
        "-",
        stdin=_join_bodies(patches),
        index=index,
    )
    if answer.status:
        first = patches[0]
        carried = any(b"\r\n" in file.raw_header for file in first.files)  # not the file's ends: the patch's own
        step = f"its lines end in CR LF: take that off (sed -i 's/\\r$//' patches/{first.name})" if carried else None
        raise ApplyError(first, _parse_reject_reason(answer.err, first), next_step=step)
    after = read_index(repository, (), index)
    index.unlink(missing_ok=True)
    return after, _parse_offsets(answer.err)


def _apply_renames(before: Mapping[str, TreeEntry], patches: Sequence[Patch]) -> dict[str, TreeEntry] | None:
    """Apply patches that only rename, each file to a free place; None: ask git.

    A relocation is hundreds of these, and git takes longer for them than for the rest of a series.
    """
    files = [file for patch in patches for file in patch.files]
    moves = {file.old_path: file.new_path for file in files if file.old_path and file.new_path}
    targets = set(moves.values())
    plain = all(
        file.git and file.rename and not (file.hunks or file.binary or file.old_mode or file.new_mode) for file in files
    )
    if not plain or len(targets) != len(files) or any(find_path_fault(path) for path in (*moves, *targets)):
        return None
    above = {folder for path in targets for folder in list_parents(path)}
    if targets & (before.keys() | above) or any(
        path not in before or before[path].mode in (TREE, SUBMODULE) for path in moves
    ):
        return None
    kept = {path: entry for path, entry in before.items() if path not in moves and entry.mode != TREE}
    return kept | {new: before[old] for old, new in moves.items()}


def _prepare_index_path(scratch: Path) -> Path:
    """Return the path of an index of this process alone.

    What a killed process left is removed; its git may outlive it and hold that one's lock.
    """
    mine = str(os.getpid())
    for left in scratch.glob("apply*.index*"):
        owner = left.name.removeprefix("apply-").partition(".")[0]
        if owner == mine or not Path("/proc", owner).exists():
            left.unlink(missing_ok=True)
    return scratch / f"apply-{mine}.index"


def _join_bodies(patches: Sequence[Patch]) -> bytes:
    """Join the diffs of several patches.

    git ignores a signature below a diff as it does any text.
    """
    return b"".join(body if body.endswith(b"\n") else body + b"\n" for body in (patch.body for patch in patches))


def _parse_offsets(words: str) -> dict[str, list[Offset]]:
    offsets: dict[str, list[Offset]] = {}
    path = ""
    for line in words.splitlines():
        if match := _CHECKING.match(line):
            path = match.group(1).rsplit(" => ", 1)[-1]
        elif match := _OFFSET.match(line):
            hunk, at, far = (int(group) for group in match.groups())
            offsets.setdefault(path, []).append(Offset(path, hunk, at, far))
    return offsets


def _parse_reject_reason(words: str, patch: Patch) -> str:
    """Return git's reject reason in one line, with the number of the hunk."""
    lines = [line for line in words.splitlines() if line.startswith("error: ")]
    for line in lines:
        if match := _FAILED.match(line):
            path, at = match.group(1), int(match.group(2))
            for file in patch.files:
                starts = [hunk.old_start for hunk in file.hunks]
                if path in (file.old_path, file.new_path) and at in starts:
                    return (
                        f"{path}: hunk {starts.index(at) + 1} does not apply (its lines are not found around line {at})"
                    )
            return f"{path}: the hunk at line {at} does not apply"
    reasons = [line.removeprefix("error: ") for line in lines if not line.startswith("error: while searching")]
    return "; ".join(reasons[:2]) or words.strip().rpartition("\n")[2] or "git apply gave no reason"


def _check_changes(
    patch: Patch, before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry], offsets: Mapping[str, list[Offset]]
) -> AppliedPatch:
    """Return what ``patch`` did.

    Raises ApplyError where that is not what the patch says.
    """
    changes: dict[str, TreeEntry | None] = {}
    own_offsets: list[Offset] = []
    gone = {t.old_path for t in patch.files if t.old_path and t.old_path != t.new_path and not t.copy}
    for file in patch.files:
        if file.new_path:
            if file.new_path not in after and file.deletes is None:
                changes[file.new_path] = None
                continue
            if file.new_path not in after:
                raise ApplyError(patch, f"{file.new_path}: git said that it applied, but the file is not in the tree")
            if after[file.new_path] == before.get(file.new_path):
                raise ApplyError(patch, f"{file.new_path}: git said that it applied, but the file did not change")
            changes[file.new_path] = after[file.new_path]
        own_offsets += offsets.get(file.path, [])
    for path in gone:
        if path not in changes:
            if path in after:
                raise ApplyError(patch, f"{path}: git said that it applied, but the file is still in the tree")
            changes[path] = None
    return AppliedPatch(patch, changes, tuple(own_offsets))
