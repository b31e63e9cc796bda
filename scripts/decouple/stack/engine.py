"""quilt's verbs on a git tree.

Every verb works out the commit the tree should stand on, with objects only, and then makes one transaction of it
(``journal``). So the time of a verb depends on the files it touches, and a verb that fails has changed nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from decouple.base.checkout import SeriesPlaces
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import clear_folder
from decouple.base.git import Repository, format_git
from decouple.base.steps import mark_step
from decouple.patch import series_file
from decouple.patch.parse import Patch
from decouple.patch.series_file import SeriesFile
from decouple.stack import overlay as overlays
from decouple.stack.applier import ApplyError, Offset, apply_patches, explain_moved_files
from decouple.stack.commits import (
    CommitText,
    NewCommit,
    parse_commit_text,
    read_chain,
    write_chain,
)
from decouple.stack.journal import Journal, OverlayCommit, StackEntry, StackState, Transaction
from decouple.stack.worktree import forbid_conversion

BRANCH = "refs/heads/decouple-"

Files = Mapping[Path, bytes | None]
"""Files of the project to write with a move; None: to delete."""
NO_FILES: Files = {}


class MoveResult(Struct, frozen=True):
    """What a verb did."""

    pushed: tuple[str, ...] = ()
    popped: tuple[str, ...] = ()
    offsets: Mapping[str, tuple[Offset, ...]] = {}
    files: int = 0
    """Paths of the work tree that changed."""
    overlay: str = ""
    """What happened to the overlay: "laid", "taken off", or nothing."""
    top: str | None = None
    stopped: DecoupleError | None = None
    """The patch that did not apply, when those before it were kept."""


class Stack:
    """A series and the tree it is applied to.

    Open one with :meth:`open`; it holds the tree's lock until left.
    """

    def __init__(self, places: SeriesPlaces, journal: Journal, state: StackState) -> None:
        self.places = places
        self.journal = journal
        self.repository = journal.repository
        self.state = state
        self.recovered: list[str] = []
        """What was done about a command that had been cut off."""
        self._loaded: dict[str, Patch] = {}

    @classmethod
    @contextmanager
    def open(cls, places: SeriesPlaces) -> Iterator[Stack]:
        """Open the applied tree of ``places``, finishing what an earlier command left.

        Raises DecoupleError if there is no applied tree.
        """
        journal = Journal(Repository(places.tree), (places.series.parent, places.patches))
        if not journal.exists:
            raise DecoupleError(
                f"{places.tree} holds no applied series", next_step=f"run `decouple apply {places.release}`"
            )
        with journal.open_session() as words:
            stack = cls(places, journal, journal.load_state())
            stack.recovered = words
            yield stack

    # ---- what there is

    @property
    def series(self) -> SeriesFile:
        """Read the series file as it is on disk."""
        return series_file.read_series(self.places.series)

    @property
    def applied(self) -> tuple[str, ...]:
        """Return the names of the applied patches, bottom first."""
        return tuple(item.name for item in self.state.applied)

    @property
    def unapplied(self) -> tuple[str, ...]:
        """Return the names of the patches that are not applied, in series order."""
        done = set(self.applied)
        return tuple(name for name in self.series.names if name not in done)

    @property
    def top(self) -> str | None:
        """Return the topmost applied patch."""
        return self.state.applied[-1].name if self.state.applied else None

    def read_patch(self, name: str) -> Patch:
        """Return the patch file ``name`` of the series, read once."""
        if name not in self._loaded:
            entry = next((entry for entry in self.series.entries if entry.name == name), None)
            if entry is None:
                raise UsageError(f"patch {name} is not in the series", next_step="`decouple series` lists what is")
            self._loaded[name] = entry.load_patch(self.places.patches)
        return self._loaded[name]

    def find_name(self, wanted: str) -> str:
        """Find the full name of a patch.

        ``wanted`` is ``2.6/0003-x.patch``, ``0003-x.patch``, ``0003-x``, ``0003`` or its id. Raises UsageError if no
        patch, or more than one, fits.
        """
        names = dict.fromkeys((*self.series.names, *self.applied))
        ways: tuple[Callable[[str], bool], ...] = (
            lambda name: name == wanted,
            lambda name: name.rsplit("/", 1)[-1] == wanted,
            lambda name: name.rsplit("/", 1)[-1].removesuffix(".patch") == wanted,
            lambda name: name.rsplit("/", 1)[-1].startswith(wanted + "-"),
            lambda name: name in self.series.names and self.read_patch(name).header.decouple_id == wanted,
        )
        for fits in ways:
            matches = [name for name in names if fits(name)]
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise UsageError(f"{wanted!r} fits {', '.join(matches)}", next_step="give the whole name")
        raise UsageError(
            f"no patch {wanted!r} in series {self.places.release}", next_step="`decouple series` lists them"
        )

    # ---- moving

    def move_to(
        self,
        wanted: Sequence[Patch],
        *,
        verb: str,
        overlay: bool | None = None,
        keep_partial: bool = False,
        files: Files = NO_FILES,
        start: StackState | None = None,
    ) -> MoveResult:
        """Bring the tree to exactly ``wanted`` applied.

        The overlay is on top or not (None: as it is now). ``files`` of the project go with it.

        Patches that are applied with the same bytes stay; the others are made anew on top of them. With
        ``keep_partial`` a patch that does not apply stops the move behind the one before it and is told in ``stopped``;
        otherwise nothing moves and ApplyError is raised. ``start`` puts the patches on another base, or records
        another source.
        """
        old, start = self.state, start or self.state
        overlay = bool(old.overlay) if overlay is None else overlay
        common = 0
        for patch, item in zip(wanted, start.applied, strict=False):
            if (patch.name, patch.sha256) != (item.name, item.sha256):
                break
            common += 1
        kept = start.applied[:common]
        tip = kept[-1].commit if kept else start.base
        stopped: ApplyError | None = None
        try:
            outcomes = apply_patches(self.repository, tip, wanted[common:], self.journal.scratch)
        except ApplyError as error:
            stopped = explain_moved_files(error, wanted[: common + len(error.applied)])
            if not keep_partial:
                raise stopped from None
            outcomes, overlay = list(error.applied), False
        texts = [parse_commit_text(outcome.patch.header_text, outcome.patch.name) for outcome in outcomes]
        chain = [NewCommit(text, outcome.changes) for text, outcome in zip(texts, outcomes, strict=True)]
        commits = write_chain(self.repository, tip, chain)
        made = tuple(
            StackEntry(outcome.patch.name, outcome.patch.sha256, commit, outcome.offsets)
            for outcome, commit in zip(outcomes, commits, strict=True)
        )
        new = replace(start, applied=(*kept, *made))
        series = files.get(self.places.series) or self.places.series.read_bytes()
        new = replace(new, overlay=self.write_overlay(new, wanted, series) if overlay else None)
        changed = self.transact(Transaction(verb, new, files))
        overlay_change = "" if new.overlay == old.overlay else "laid" if new.overlay else "taken off"
        return MoveResult(
            pushed=tuple(item.name for item in made),
            popped=tuple(item.name for item in reversed(old.applied[common:])),
            offsets={item.name: item.offsets for item in made if item.offsets},
            files=changed,
            overlay=overlay_change,
            top=self.top,
            stopped=stopped,
        )

    def write_overlay(self, state: StackState, patches: Sequence[Patch], series: bytes) -> OverlayCommit | None:
        """Write the overlay on top of ``state``'s patches unless it is there.

        None without a project.
        """
        if self.places.project is None:
            return None
        if series_file.parse_series(series.decode("utf-8")).names != tuple(patch.name for patch in patches):
            series = "".join(f"{patch.name}\n" for patch in patches).encode()
        files = overlays.read_overlay(self.repository, self.places.project, series, patches)
        have = self.state.overlay
        if have and have.digest == files.digest and self.state.tip == state.tip:
            return have
        (commit,) = write_chain(
            self.repository, state.tip, [overlays.make_overlay_commit(self.repository, state.tip, files)]
        )
        return OverlayCommit(commit, files.digest)

    def transact(self, plan: Transaction) -> int:
        """Carry out ``plan`` unless it changes nothing.

        Returns how many paths of the work tree changed.
        """
        changed = 0
        if plan.state != self.state or plan.files or plan.index or self.repository.read_head() != plan.state.head:
            changed = len(self.journal.commit(plan))
            self.state = plan.state
            self._loaded.clear()
        return changed

    def push(self, what: str | int | None = 1, *, overlay: bool = True) -> MoveResult:
        """Apply the next patch, the next N, those up to a name (included), or all (None).

        The overlay goes on when the last patch is applied and the project has one. A patch that does not apply leaves
        those before it applied, as quilt does; see ``stopped``.
        """
        self.check_unedited()
        names = self.series.names
        self._check_order()
        done = len(self.applied)
        if what is None:
            target = len(names)
        elif isinstance(what, int):
            target = min(done + what, len(names))
        else:
            name = self.find_name(what)
            if name in self.applied:
                raise UsageError(
                    f"{name} is applied already", next_step="`decouple series --top` names the topmost patch"
                )
            target = names.index(name) + 1
        complete = target == len(names)
        lay = complete and overlay and self.places.project is not None
        if target == done and bool(self.state.overlay) == lay:
            return MoveResult(top=self.top)
        wanted = [self.read_patch(name) for name in names[:target]]
        return self.move_to(wanted, verb="push", overlay=lay, keep_partial=True)

    def pop(self, what: str | int | None = 1) -> MoveResult:
        """Take off the top patch, the top N, those above a name, or all (None).

        The overlay goes first.
        """
        self.check_unedited()
        done = self.applied
        if what is None:
            left = 0
        elif isinstance(what, int):
            left = max(len(done) - what, 0)
        else:
            name = self.find_name(what)
            if name not in done:
                raise UsageError(f"{name} is not applied", next_step="`decouple series --applied` lists what is")
            left = done.index(name) + 1
        had = self.state.overlay
        changed = self.transact(
            Transaction("pop", replace(self.state, applied=self.state.applied[:left], overlay=None))
        )
        return MoveResult(
            popped=tuple(reversed(done[left:])), files=changed, overlay="taken off" if had else "", top=self.top
        )

    # ---- is the tree what we left?

    def list_edited_files(self) -> tuple[str, ...]:
        """Return the tracked files that differ from HEAD."""
        with suppress(OSError), self.journal.note_index_lock():  # a full disk: the times stay as they are
            self.repository.try_run("update-index", "-q", "--refresh")
        raw = self.repository.run("diff-index", "-z", "--name-only", "HEAD", "--")
        return tuple(name.decode("utf-8", "surrogateescape") for name in raw.split(b"\0") if name)

    def read_commits(self) -> list[tuple[str, str, CommitText]]:
        """Return HEAD's commits on top of the base: (commit, tree, text).

        Raises DecoupleError while a rebase or merge is going on, or if HEAD left the series' history.
        """
        for name in ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"):
            if (self.repository.git_dir / name).exists():
                raise DecoupleError(
                    f"{self.places.tree} is in the middle of a {name.split('-')[0].split('_')[0].lower()}",
                    next_step="finish it with git, or abort it",
                )
        head = self.repository.read_head()
        if head is None:
            raise DecoupleError(
                f"{self.repository.root}: HEAD names no commit",
                next_step=f"`{format_git(self.repository.root, 'checkout', 'BRANCH')}`, which is the series' branch",
            )
        return read_chain(self.repository, self.state.base, head)

    def check_unedited(self) -> None:
        """Raise DecoupleError if HEAD moved by hand: a move would lose commits."""
        head = self.repository.read_head()
        if head == self.state.head:
            return
        known = {item.commit for item in self.state.applied}
        if self.state.overlay:
            known.add(self.state.overlay.commit)
        ours = [text.title for commit, _, text in self.read_commits() if commit not in known]
        what = f"commit {ours[0]!r} is" if ours else "HEAD has been moved by hand and is"
        raise DecoupleError(
            f"{what} not in patches/ yet",
            next_step=f"`decouple refresh {self.places.release}` writes it there; "
            f"`{format_git(self.repository.root, 'reset', '--keep', self.state.head[:12])}` drops it",
        )

    def _check_order(self) -> None:
        """Raise DecoupleError if the applied patches are not the first ones of the series."""
        names = self.series.names
        if names[: len(self.applied)] != self.applied:
            raise DecoupleError(
                f"the applied patches are no longer the first {len(self.applied)} of {self.places.series}",
                next_step=f"`decouple apply {self.places.release}` brings the tree to the series",
            )


def create_tree(
    places: SeriesPlaces,
    baseline: Path,
    commit: str,
    upstream: str,
    source: Mapping[str, str],
    held: tuple[int, ...] = (),
) -> None:
    """Make ``places.tree`` from a bare repository, with ``commit`` checked out.

    Its objects are there by hard link. ``held`` are open files that git inherits: a lock, so that a git that outlives a
    killed run still holds it. The tree is made beside its place and moved there when it is complete. Raises
    DecoupleError if something else is in the way.
    """
    target = places.tree
    if target.is_symlink():  # no folder can be moved onto it
        raise DecoupleError(
            f"{target} is a link, and the tree is to be made in its place",
            next_step=f"`rm {shlex.quote(str(target))}`; for trees on another disk make {target.parent.parent} a link",
        )
    if target.exists() and any(target.iterdir()):
        raise DecoupleError(
            f"{target} exists and is no applied tree of ours", next_step="move it away, or remove it, and run again"
        )
    part = target.with_name(f".{target.name}.part")
    if os.path.lexists(part):
        mark_step("remove an unfinished tree")
        clear_folder(part)
    part.parent.mkdir(parents=True, exist_ok=True)
    repository = Repository(part)
    repository.held = held
    mark_step("make the repository")
    part.mkdir()
    repository.run("init", "-q", "--template=")
    link_objects(baseline / "objects", repository.git_dir / "objects")
    forbid_conversion(repository)
    for key, value in (
        ("core.autocrlf", "false"),
        ("core.trustctime", "false"),
        ("core.checkStat", "minimal"),  # a bind mount or a copy changes inodes, not contents
        ("gc.auto", "0"),
        ("rerere.enabled", "false"),
    ):
        repository.run("config", key, value)
    repository.run("symbolic-ref", "HEAD", f"{BRANCH}{places.release}")
    repository.run("update-ref", "HEAD", commit)
    repository.run("update-ref", "refs/decouple/base", commit)
    repository.run("update-ref", "refs/decouple/upstream", upstream)
    mark_step("check the tree out")
    repository.run("-c", "checkout.workers=0", "read-tree", "-m", "-u", "HEAD")
    Journal(repository).save_state(StackState(places.release, upstream, commit, source=dict(source)))
    if target.exists():
        target.rmdir()
    mark_step("move the tree into place")
    part.rename(target)


def link_objects(origin: Path, target: Path) -> None:
    """Give ``target`` every object file of ``origin`` by hard link.

    So it costs nothing and outlives the cache; on another file system it is a copy. Not ``origin``'s ``info``: objects
    of others that it would name are none of a baseline.
    """
    for path in sorted(origin.rglob("*"), key=lambda path: path.suffix == ".idx"):  # git finds a pack by its .idx
        if path.relative_to(origin).parts[0] == "info" or path.is_symlink():
            continue
        if path.is_file() and path.suffix not in (".lock", ".keep") and not path.name.startswith("tmp_"):
            copy = target / path.relative_to(origin)
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, copy)
            except FileExistsError:  # an object's name is its content, unless a copy of it was cut off
                if copy.stat().st_size != path.stat().st_size:
                    _copy_object(path, copy)
            except OSError:  # another file system
                _copy_object(path, copy)


def _copy_object(path: Path, copy: Path) -> None:
    """Copy an object file to ``copy``, which is never there in part."""
    part = copy.with_name(f"tmp_{copy.name}")  # as git names what it has not finished
    part.unlink(missing_ok=True)  # of a killed run; it may be read-only
    try:
        shutil.copy2(path, part)
        part.replace(copy)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
