"""A series as a plain git branch and back, without loss.

The commits are those of the applied tree: header as message, ``Decouple-Patch`` trailer with the file name. So a branch
can live in any clone of PyTorch, be rebased and reviewed with the tools everybody has, and come back as the same files:
a patch whose commit still does what the file does keeps the file's bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.checkout import SeriesPlaces
from decouple.base.errors import UsageError
from decouple.base.git import Repository
from decouple.patch import seriesfile
from decouple.patch.parse import Patch
from decouple.stack.applier import ApplyError, apply, told_of_moves
from decouple.stack.commits import (
    OVERLAY_TRAILER,
    PATCH_TRAILER,
    NewCommit,
    from_header,
    read_chain,
    write_chain,
)
from decouple.stack.engine import Stack
from decouple.stack.journal import Applied, Transaction
from decouple.stack.trees import TreeEntry, differences
from decouple.stack.writeback import ID, DraftPatch, Written, write


class SeriesBranch(Struct, frozen=True):
    """A branch made from a series."""

    repository: Path
    name: str
    base: str
    commit: str
    patches: tuple[str, ...]


def open_repository(path: Path) -> Repository:
    """The git repository at ``path``: a work tree, a bare repository, or a linked work tree. Raises UsageError."""
    for git_dir in (path / ".git", path):
        if (git_dir / "objects").is_dir() and (git_dir / "HEAD").is_file():
            return Repository(path, git_dir)
    link = path / ".git"
    if link.is_file():
        target = Path(link.read_text().removeprefix("gitdir:").strip())
        return Repository(path, target if target.is_absolute() else path / target)
    raise UsageError(f"{path} is no git repository", next_step="name a clone of PyTorch")


def to_branch(
    places: SeriesPlaces, repository: Repository, name: str, base: str, *, force: bool = False
) -> SeriesBranch:
    """Make branch ``name`` in ``repository``: the whole series as commits on top of ``base``.

    No work tree is touched. Raises ApplyError if a patch does not apply there, UsageError if ``base`` is unknown or
    the branch exists and ``force`` is not set.
    """
    start = repository.resolve(base)
    if start is None:
        raise UsageError(f"{repository.root} has no commit {base}", next_step="fetch it, or name another with --base")
    ref = f"refs/heads/{name}"
    if repository.resolve(ref) and not force:
        raise UsageError(f"branch {name} exists in {repository.root}", next_step="delete it, or use --force")
    if force and repository.try_run("symbolic-ref", "-q", "HEAD").out.decode().strip() == ref:
        raise UsageError(f"branch {name} is checked out in {repository.root}", next_step="check out another one first")
    patches = [entry.patch(places.patches) for entry in seriesfile.read(places.series).entries]
    with tempfile.TemporaryDirectory(prefix="decouple-") as scratch:
        try:
            outcomes = apply(repository, start, patches, Path(scratch))
        except ApplyError as error:
            raise told_of_moves(error, patches[: len(error.applied)]) from None
    chain = [NewCommit(from_header(o.patch.header_text, o.patch.name), o.changes) for o in outcomes]
    commits = write_chain(repository, start, chain)
    tip = commits[-1] if commits else start
    repository.run("update-ref", "-m", f"decouple: series {places.release}", ref, tip)
    repository.try_run("update-ref", "-d", "refs/decouple/next")
    return SeriesBranch(repository.root, name, start, tip, tuple(patch.name for patch in patches))


def from_branch(stack: Stack, repository: Repository, revision: str, base: str, *, drop: bool = False) -> Written:
    """Write the commits ``base..revision`` of any repository back to ``patches/`` and the series file.

    The series becomes exactly these commits. The applied tree is not moved: `decouple apply` does that. Raises
    DecoupleError if the history is not straight, or if a patch of the series has no commit and ``drop`` is not set.
    """
    start, tip = repository.resolve(base), repository.resolve(revision)
    if start is None or tip is None:
        missing = base if start is None else revision
        raise UsageError(f"{repository.root} has no commit {missing}", next_step="name it with --base or --branch")
    chain = [row for row in read_chain(repository, start, tip) if row[2].trailer(OVERLAY_TRAILER) is None]
    stored = _stored(stack)
    by_id = {_id(patch): patch for patch in stored.values() if _id(patch)}
    items: list[DraftPatch] = []
    used: set[str] = set()
    parent = start
    for commit, _, text in chain:
        changes = {c.path: (c.old, c.new) for c in differences(repository, parent, commit)}
        patch = stored.get(text.trailer(PATCH_TRAILER) or "") or by_id.get(text.trailer(ID))
        if patch is None or patch.name in used:
            items.append(DraftPatch(text, changes))
        else:
            used.add(patch.name)
            items.append(
                DraftPatch(
                    text,
                    changes,
                    patch,
                    same_diff=_does(repository, parent, patch, changes, stack.journal.scratch),
                    same_text=text.same_text(from_header(patch.header_text, patch.name)),
                )
            )
        parent = commit
    written = write(_Elsewhere(stack, repository, start, stored), items, drop=drop)
    repository.try_run("update-ref", "-d", "refs/decouple/next")
    stack.transact(Transaction("from-branch", stack.state, written.files))
    return written


class _Elsewhere(Stack):
    """The stack's series seen as if all of it were applied in another repository."""

    def __init__(self, stack: Stack, repository: Repository, base: str, stored: Mapping[str, Patch]) -> None:
        super().__init__(stack.places, stack.journal, stack.state)
        self.repository = repository
        applied = tuple(Applied(patch.name, patch.sha256, "") for patch in stored.values())
        self.state = replace(stack.state, base=base, applied=applied, overlay=None)


def _stored(stack: Stack) -> dict[str, Patch]:
    return {name: stack.patch(name) for name in stack.series.names}


def _id(patch: Patch) -> str | None:
    return from_header(patch.header_text, patch.name).trailer(ID)


def _does(
    repository: Repository,
    parent: str,
    patch: Patch,
    changes: Mapping[str, tuple[TreeEntry | None, TreeEntry | None]],
    scratch: Path,
) -> bool:
    """Whether the stored patch, applied on ``parent``, does exactly what the commit does, at the places it names."""
    if not patch.checked().files:
        return not changes
    try:
        (outcome,) = apply(repository, parent, [patch], scratch)
    except ApplyError:
        return False
    return not outcome.offsets and dict(outcome.changes) == {path: after for path, (_, after) in changes.items()}
