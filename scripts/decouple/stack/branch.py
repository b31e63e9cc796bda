"""A series as a plain git branch and back, without loss.

The commits are those of the applied tree: header as message, ``Decouple-Patch`` trailer with the file name. So a branch
can live in any clone of PyTorch, be rebased and reviewed with the tools everybody has, and come back as the same files:
a patch whose commit still does what the file does keeps the file's bytes.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.checkout import SeriesPlaces
from decouple.base.errors import UsageError
from decouple.base.git import GitError, Repository
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.stack.applier import ApplyError, apply_patches, explain_moved_files
from decouple.stack.commits import (
    OVERLAY_TRAILER,
    PATCH_TRAILER,
    NewCommit,
    parse_commit_text,
    read_chain,
    write_chain,
)
from decouple.stack.engine import Stack
from decouple.stack.journal import StackEntry, Transaction
from decouple.stack.series_update import ID, DraftPatch, SeriesUpdate, make_series_update
from decouple.stack.trees import TreeEntry, compare_trees


class SeriesBranch(Struct, frozen=True):
    """A branch made from a series."""

    repository: Path
    name: str
    base: str
    commit: str
    patches: tuple[str, ...]


def open_repository(path: Path) -> Repository:
    """Open the git repository at ``path``.

    A work tree, a bare repository, or a linked work tree. Raises UsageError.
    """
    for git_dir in (path / ".git", path):
        if (git_dir / "objects").is_dir() and (git_dir / "HEAD").is_file():
            return Repository(path, git_dir)
    link = path / ".git"
    if link.is_file():
        target = Path(link.read_text().removeprefix("gitdir:").strip())
        return Repository(path, target if target.is_absolute() else path / target)
    raise UsageError(f"{path} is no git repository", next_step="name a clone of PyTorch")


def make_branch(
    places: SeriesPlaces, repository: Repository, name: str, base: str, *, force: bool = False
) -> SeriesBranch:
    """Make branch ``name`` in ``repository``.

    It is the whole series as commits on top of ``base``. No work tree is touched. Raises ApplyError if a patch does not
    apply there, UsageError if ``base`` is unknown, ``name`` is none for a branch, a work tree has it checked out, or it
    exists and ``force`` is not set.
    """
    _check_name(repository, name)
    start = repository.resolve_commit(base)
    if start is None:
        raise UsageError(f"{repository.root} has no commit {base}", next_step="fetch it, or name another with --base")
    ref = f"refs/heads/{name}"
    if repository.resolve_commit(ref) and not force:
        raise UsageError(f"branch {name} exists in {repository.root}", next_step="delete it, or use --force")
    if holder := _find_holder(repository, ref):
        raise UsageError(
            f"branch {name} is checked out in {holder}",
            next_step="check out another one there first (`git worktree prune` where that folder is gone)",
        )
    patches = [entry.load_patch(places.patches) for entry in series_file.read_series(places.series).entries]
    with tempfile.TemporaryDirectory(prefix="decouple-") as scratch:
        try:
            outcomes = apply_patches(repository, start, patches, Path(scratch))
        except ApplyError as error:
            raise explain_moved_files(error, patches[: len(error.applied)]) from None
    chain = [NewCommit(parse_commit_text(o.patch.header_text, o.patch.name), o.changes) for o in outcomes]
    with _forgetting_next(repository):
        commits = write_chain(repository, start, chain)
        tip = commits[-1] if commits else start
        answer = repository.try_run("update-ref", "-m", f"decouple: series {places.release}", ref, tip)
        if answer.status:  # another branch is in its way: NAME/more where this is NAME
            raise GitError(f"branch {name} in {repository.root}", answer, next_step="give it another name with --name")
    return SeriesBranch(repository.root, name, start, tip, tuple(patch.name for patch in patches))


def import_branch(
    stack: Stack, repository: Repository, revision: str, base: str, *, drop: bool = False
) -> SeriesUpdate:
    """Write the commits ``base..revision`` back to ``patches/`` and the series file.

    They may be of any repository. The series becomes exactly these commits. The applied tree is not moved: `decouple
    apply` does that. Raises DecoupleError if the history is not straight, or if a patch of the series has no commit and
    ``drop`` is not set.
    """
    start, tip = repository.resolve_commit(base), repository.resolve_commit(revision)
    if start is None or tip is None:
        missing = base if start is None else revision
        raise UsageError(f"{repository.root} has no commit {missing}", next_step="name it with --base or --name")
    chain = [row for row in read_chain(repository, start, tip) if row[2].find_trailer(OVERLAY_TRAILER) is None]
    stored = _read_stored_patches(stack)
    by_id = {_read_identity(patch): patch for patch in stored.values() if _read_identity(patch)}
    items: list[DraftPatch] = []
    used: set[str] = set()
    parent = start
    for commit, _, text in chain:
        changes = {c.path: (c.old, c.new) for c in compare_trees(repository, parent, commit)}
        patch = stored.get(text.find_trailer(PATCH_TRAILER) or "") or by_id.get(text.find_trailer(ID))
        if patch is None or patch.name in used:
            items.append(DraftPatch(text, changes))
        else:
            used.add(patch.name)
            items.append(
                DraftPatch(
                    text,
                    changes,
                    patch,
                    same_diff=_has_same_effect(repository, parent, patch, changes, stack.journal.scratch),
                    same_text=text.has_same_text(parse_commit_text(patch.header_text, patch.name)),
                )
            )
        parent = commit
    with _forgetting_next(repository):
        written = make_series_update(_BranchStack(stack, repository, start, stored), items, drop=drop)
    stack.transact(Transaction("from-branch", stack.state, written.files))
    return written


def _check_name(repository: Repository, name: str) -> None:
    """Raise UsageError for what git takes for no branch or, as ``@{-1}``, for another."""
    answer = repository.try_run("check-ref-format", "--branch", name)
    if answer.status or answer.out.rstrip(b"\n") != os.fsencode(name):
        raise UsageError(f"{name!r} is no name for a branch", next_step="give it another name with --name")


def _find_holder(repository: Repository, ref: str) -> str:
    """Return the folder where ``ref`` is checked out, of all work trees; "" for none."""
    for tree in repository.read_text("worktree", "list", "--porcelain", "-z").split("\0\0"):
        folder, *facts = tree.split("\0")
        if f"branch {ref}" in facts:
            return folder.removeprefix("worktree ")
    return ""


@contextlib.contextmanager
def _forgetting_next(repository: Repository) -> Iterator[None]:
    """Let go of the commits that ``write_chain`` holds in a person's repository."""
    try:
        yield
    finally:
        repository.try_run("update-ref", "-d", "refs/decouple/next")


class _BranchStack(Stack):
    """The stack's series seen as if all of it were applied in another repository."""

    def __init__(self, stack: Stack, repository: Repository, base: str, stored: Mapping[str, Patch]) -> None:
        super().__init__(stack.places, stack.journal, stack.state)
        self.repository = repository
        applied = tuple(StackEntry(patch.name, patch.sha256, "") for patch in stored.values())
        self.state = replace(stack.state, base=base, applied=applied, overlay=None)


def _read_stored_patches(stack: Stack) -> dict[str, Patch]:
    return {name: stack.read_patch(name) for name in stack.series.names}


def _read_identity(patch: Patch) -> str | None:
    return parse_commit_text(patch.header_text, patch.name).find_trailer(ID)


def _has_same_effect(
    repository: Repository,
    parent: str,
    patch: Patch,
    changes: Mapping[str, tuple[TreeEntry | None, TreeEntry | None]],
    scratch: Path,
) -> bool:
    """Return whether the stored patch does on ``parent`` exactly what the commit does.

    At the places that the patch names.
    """
    if not patch.check_readable().files:
        return not changes
    try:
        (outcome,) = apply_patches(repository, parent, [patch], scratch)
    except ApplyError:
        return False
    return not outcome.offsets and dict(outcome.changes) == {path: after for path, (_, after) in changes.items()}
