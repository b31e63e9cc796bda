"""Change the stack in transactions.

A kill at any instant leaves the old or the new state. A transaction writes everything it will need (objects, staged
files) first, then its journal, then moves index and work tree, the project's files, HEAD and last the state file; then
the journal goes. A command that finds a journal finishes it, or drops it if the work tree was not yet touched.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.files import clear_folder, create_file, hold_lock, write_atomically
from decouple.base.git import Repository, format_git, name_status
from decouple.base.path_names import PathPart, RelativePath, is_relative_path
from decouple.base.steps import mark_step
from decouple.base.untrusted_input import decode_path_text, encode_path_text, parse_json, read_bounded
from decouple.stack import worktree
from decouple.stack.applier import Offset
from decouple.stack.trees import Change, compare_trees

_VERSION = 1
_BOUND = 64 << 20  # bytes of a state file or journal
Id = Annotated[str, Meta(pattern=r"\A([0-9a-f]{40}|[0-9a-f]{64})\Z")]


class StackEntry(Struct, frozen=True):
    """A patch on the stack: the bytes it was made from and the commit it became."""

    name: RelativePath
    sha256: str
    commit: Id
    offsets: tuple[Offset, ...] = ()


class OverlayCommit(Struct, frozen=True):
    """The overlay commit on top of a complete series, and the digest of its files."""

    commit: Id
    digest: str


class StackState(Struct, frozen=True, forbid_unknown_fields=True):
    """The stack as the last transaction left it."""

    release: PathPart
    upstream: Id
    """Commit of the pristine source."""
    base: Id
    """Commit the patches stand on: ``upstream``, or the commit of Debian's patches on top of it."""
    applied: tuple[StackEntry, ...] = ()
    overlay: OverlayCommit | None = None
    source: Mapping[str, str] = {}
    """What ``apply`` was asked for, so that it knows when nothing changed."""

    @property
    def tip(self) -> str:
        """Return the commit of the top patch, or the base."""
        return self.applied[-1].commit if self.applied else self.base

    @property
    def head(self) -> str:
        """Return the commit that HEAD should be."""
        return self.overlay.commit if self.overlay else self.tip

    def to_json(self) -> str:
        """Return the text for the state file."""
        kept = replace(self, source={key: encode_path_text(value) for key, value in self.source.items()})
        return json.dumps({"version": _VERSION, **to_builtins(kept)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> StackState:
        """Read what :meth:`to_json` wrote.

        Raises DecoupleError for a version this program does not know, and for anything that is not what it wrote.
        """
        try:
            data = parse_json(text)
            version = data.pop("version", None)
            if version != _VERSION and isinstance(version, int):
                raise DecoupleError(
                    "the applied tree was made by another version of decouple", next_step="apply it anew"
                )
            state = convert(data, cls)
            return replace(state, source={key: decode_path_text(value) for key, value in state.source.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise DecoupleError(f"not a state of the stack: {error!r}"[:200], next_step="apply it anew") from error


class Transaction(Struct, frozen=True):
    """One transaction."""

    verb: str
    state: StackState
    files: Mapping[Path, bytes | None] = {}
    """Files of the project to write (None: to delete)."""
    index: Path | None = None
    """An index to put in place first: it holds edits that go into a patch."""
    worktree: str | None = None
    """The tree that index and work tree hold, where it is not HEAD's."""


class _StagedFile(Struct, frozen=True):
    """A file of the project, and its name when staged (None: it goes)."""

    path: str
    staged: Annotated[str, Meta(pattern=r"\A[0-9]+\Z")] | None


class _JournalRecord(Struct, frozen=True):
    """The journal: verb, old and new index and work tree, old HEAD, and next state."""

    verb: str
    old: str
    new: str
    head: str
    files: tuple[_StagedFile, ...]
    index: bool
    state: str


class Journal:
    """The state file, the lock and the transactions of one applied tree.

    A transaction writes and deletes files below ``folders`` alone: those of the series file and of the patches.
    """

    def __init__(self, repository: Repository, folders: Sequence[Path] = ()) -> None:
        self.repository = repository
        self._folders = folders
        self._own = repository.state_folder
        self._path = self._own / "journal.json"
        self._staged = self._own / "staged"
        self._locking = self._own / "locking"

    @property
    def scratch(self) -> Path:
        """Return the folder for temporary files, which the next command empties."""
        return self._own / "scratch"

    @property
    def exists(self) -> bool:
        """Return whether this repository holds a stack."""
        return (self._own / "state.json").is_file()

    def load_state(self) -> StackState:
        """Read the current state.

        Raises DecoupleError if the repository holds no stack, or a damaged state file.
        """
        path = self._own / "state.json"
        try:
            return StackState.from_json(read_bounded(path, _BOUND).decode("utf-8"))
        except FileNotFoundError:
            raise DecoupleError(
                f"{self.repository.root} holds no applied series", next_step="run `decouple apply RELEASE`"
            ) from None
        except UnicodeDecodeError as error:
            raise DecoupleError(f"{path}: {error}", next_step=self._recovery_step) from error
        except DecoupleError as error:
            raise DecoupleError(f"{path}: {error.what}", next_step=self._recovery_step) from error

    @property
    def _recovery_step(self) -> str:
        """Return what to do when the state is lost.

        The commits, and with them a person's work, are git's and still there.
        """
        return f"move {self.repository.root} away and run `decouple apply RELEASE`; its commits are in git's hands"

    @contextlib.contextmanager
    def note_index_lock(self) -> Iterator[None]:
        """Note that a git of ours takes ``index.lock`` outside of a transaction.

        Raises OSError (a full disk). One that is killed leaves it behind; the next command then knows whose it is.
        """
        create_file(self._locking).close()
        try:
            yield
        finally:
            self._locking.unlink()

    def save_state(self, state: StackState) -> None:
        """Write the state file of a new stack; all else goes through :meth:`commit`."""
        write_atomically(self._own / "state.json", state.to_json())

    @contextlib.contextmanager
    def open_session(self) -> Iterator[list[str]]:
        """Hold the lock; finish or drop what an earlier command left.

        Yields what was done about that, in words.
        """
        if self._own.is_symlink():
            raise DecoupleError(f"{self._own}: a link, and not the stack's own folder", next_step=self._recovery_step)
        with hold_lock(self._own / "lock") as handle:
            self.repository.held = (handle,)
            try:
                yield self.recover()
            finally:
                self.repository.held = ()

    def commit(self, plan: Transaction) -> list[Change]:
        """Carry out ``plan``; returns what changed in the work tree.

        Raises EditedError, with the old state in place, if a person's edits are in the way.
        """
        head = self.repository.read_head()
        if head is None:
            raise DecoupleError(
                f"{self.repository.root}: HEAD names no commit",
                next_step=f"`{format_git(self.repository.root, 'checkout', 'BRANCH')}`, which is the series' branch",
            )
        self._stage_files(plan, head)
        try:
            changes, _ = self._perform(self._read_record(), resumed=False)
        except worktree.EditedError:
            self._remove_journal()
            raise
        except (OSError, DecoupleError) as error:
            if self._has_changed_nothing():
                self._remove_journal()
                raise
            raise self._make_interruption_error(plan.verb, error) from error
        return changes

    def _make_interruption_error(self, verb: str, error: OSError | DecoupleError) -> DecoupleError:
        """Make the error for a move that ended in the middle.

        The journal stays, and the next command goes on with it.
        """
        what = error.what if isinstance(error, DecoupleError) else f"{error.filename or ''}: {error.strerror or error}"
        return DecoupleError(
            f"`{verb}` stopped in the middle: {what.removeprefix(': ')}",
            next_step="mend that (a full disk: free some) and run any command on the tree: it finishes this one first",
        )

    def _read_record(self) -> _JournalRecord:
        """Read the journal.

        Raises FileNotFoundError, DecoupleError when it is damaged.
        """
        try:
            record = convert(parse_json(read_bounded(self._path, _BOUND)), _JournalRecord)
            StackState.from_json(record.state)
            for file in record.files:
                self._find_file(file)
        except (ValueError, DecoupleError) as error:
            raise DecoupleError(
                f"{self._path}: damaged, so what a command was in the middle of is not known: {error!r}"[:300],
                next_step=f"{name_status(self.repository.root)} shows what moved; remove the file when that is well",
            ) from error
        return record

    def _name_file(self, path: Path) -> str:
        """Name a file by its folder.

        A checkout may be renamed, or be named otherwise, before the next command.
        """
        folder = next(folder for folder in self._folders if path.is_relative_to(folder))
        return encode_path_text(f"{folder.name}/{path.relative_to(folder).as_posix()}")

    def _find_file(self, file: _StagedFile) -> Path:
        """Find what `_name_file` named.

        Raises ValueError for what is below none of the folders: a journal may be somebody else's.
        """
        name, _, inside = decode_path_text(file.path).partition("/")
        for folder in self._folders:
            if folder.name == name and is_relative_path(inside):
                return folder / inside
        raise ValueError(f"{file.path} is no file of the series")

    def recover(self) -> list[str]:
        """Finish or drop a transaction that was cut off; say which, in words."""
        clear_folder(self.scratch)
        if self._locking.exists():
            worktree.forget_new_locks(self.repository, ("index.lock",), self._locking.stat().st_mtime)
            self._locking.unlink()
        worktree.forget_ref_locks(self.repository)
        try:
            record = self._read_record()
        except FileNotFoundError:
            clear_folder(self._staged)
            return []
        verb = record.verb
        if self._has_changed_nothing():
            # of a git that was killed before it touched the first path
            worktree.forget_new_locks(self.repository, ("index.lock", "HEAD.lock"), self._path.stat().st_mtime)
            self._remove_journal()
            return [f"an earlier `{verb}` was cut off before it changed anything: dropped"]
        try:
            _, rescued = self._perform(record, resumed=True)
        except (OSError, DecoupleError) as error:
            raise self._make_interruption_error(verb, error) from error
        words = [f"an earlier `{verb}` was cut off: finished it"]
        words += [f"{path} had other content than either state: saved in {copy}" for path, copy in rescued.items()]
        return words

    @property
    def _rescue_folder(self) -> Path:
        return self.repository.root.parent / "rescued"

    def _stage_files(self, plan: Transaction, head: str) -> None:
        clear_folder(self._staged)
        files = []
        for number, (path, data) in enumerate(plan.files.items()):
            if data == (path.read_bytes() if path.is_file() else None):
                continue  # only real changes: whether one is done tells a later command whether the move had begun
            name = None
            if data is not None:
                name = str(number)
                write_atomically(self._staged / name, data)
            files.append(_StagedFile(self._name_file(path), name))
        if plan.index:
            self._staged.mkdir(parents=True, exist_ok=True)
            mark_step("stage the index")
            plan.index.replace(self._staged / "index")
        new, text = plan.state.head, plan.state.to_json()
        record = _JournalRecord(plan.verb, plan.worktree or head, new, head, tuple(files), bool(plan.index), text)
        write_atomically(self._path, json.dumps(to_builtins(record)))

    def _perform(self, record: _JournalRecord, *, resumed: bool) -> tuple[list[Change], dict[str, Path]]:
        """Do what is recorded.

        Returns the changes of the tree, and the copies of edits that were in the way.
        """
        repository = self.repository
        rescued: dict[str, Path] = {}
        staged_index = self._staged / "index"
        if record.index and staged_index.exists():
            mark_step("put the index in place")
            staged_index.replace(repository.git_dir / "index")
        if resumed:
            changes = compare_trees(repository, record.old, record.new)
            rescued = worktree.finish_move(repository, changes, self._rescue_folder, self._path.stat().st_mtime)
        else:
            changes = worktree.move_worktree(repository, record.old, record.new)
        for item in record.files:
            path = self._find_file(item)
            if item.staged is None:
                mark_step(f"delete {path.name}")
                path.unlink(missing_ok=True)
            else:
                data = (self._staged / item.staged).read_bytes()
                write_atomically(path, data)
        if record.new != record.head:
            mark_step("move HEAD")
            if resumed:
                branch = repository.try_run("symbolic-ref", "-q", "HEAD").out.decode().strip()
                for name in filter(None, ("HEAD", branch)):
                    worktree.forget_stale_lock(repository, f"{name}.lock", self._path.stat().st_mtime)
            repository.run("update-ref", "-m", f"decouple: {record.verb}", "HEAD", record.new)
        write_atomically(self._own / "state.json", record.state)
        self._remove_journal()
        return changes, rescued

    def _has_changed_nothing(self) -> bool:
        """Return whether the journal's transaction did nothing yet and can be dropped."""
        try:
            record = self._read_record()
        except FileNotFoundError:
            return True
        if record.index and not (self._staged / "index").exists():
            return False
        if self.repository.read_head() != record.head:
            return False
        changes = compare_trees(self.repository, record.old, record.new)
        if worktree.has_begun(self.repository, changes):
            return False
        for item in record.files:
            path = self._find_file(item)
            wanted = (self._staged / item.staged).read_bytes() if item.staged is not None else None
            now = path.read_bytes() if path.is_file() else None
            if now == wanted:
                return False
        return True

    def _remove_journal(self) -> None:
        mark_step("remove the journal")
        self._path.unlink(missing_ok=True)
        clear_folder(self._staged)
