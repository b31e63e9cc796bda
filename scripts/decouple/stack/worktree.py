"""Move the files of the work tree from one tree to another.

Only paths that differ are touched, so the rest keep their mtimes and ninja rebuilds the minimum. A person's uncommitted
edits are never overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import find_free_name, remove_folder, write_atomically
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK, Repository, format_git
from decouple.base.steps import mark_step
from decouple.stack.trees import Change, TreeEntry, compare_trees, hash_blob, list_parents, read_blobs, read_index

#: Up to so many paths are moved one by one: `git read-tree -m -u` walks the whole tree, however little differs
#: (0.1 s of processor time on PyTorch for one file). For who pushes by hand; scripts/bench/apply.py measures it.
FEW = 64
#: So many of the files in the way are named.
_SHOWN = 20
#: git's own words for a person's edit in the way (unpack-trees.c); anything else, "unable to write file" say, is none.
_BLOCKED = re.compile(
    r"^error: (?:"
    r"Entry '(?P<edited>.*)' (?:not uptodate|would be overwritten by merge)"
    r"|Untracked working tree file '(?P<untracked>.*)' would be (?:overwritten|removed)"
    r"|Updating '(?P<folder>.*)' would lose untracked files"
    r")",
    re.M,
)


class EditedError(DecoupleError):
    """A file that has to change holds edits nobody committed."""

    def __init__(self, path: str, why: str, next_step: str) -> None:
        super().__init__(f"{path} {why} and would be overwritten", next_step=next_step)
        self.path = path


def _make_edited_error(root: Path, path: str) -> EditedError:
    drop = format_git(root, "checkout", "HEAD", "--", path)  # also what is staged
    step = f"`decouple refresh` takes edits into the top patch, `{drop}` drops them"
    return EditedError(path, "has edits that are in no patch", step)


def _make_untracked_error(root: Path, paths: Sequence[str]) -> EditedError:
    if len(paths) == 1:
        return EditedError(paths[0], "is not under version control", f"move {root / paths[0]} away")
    folder = os.path.commonpath([Path(path).parent for path in paths])
    names = [os.path.relpath(path, folder) for path in paths]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return EditedError(
        paths[0], f"and {len(paths) - 1} more are not under version control", f"move away in {root / folder}: {shown}"
    )


def forbid_conversion(repository: Repository) -> None:
    """Keep every git from converting files, whatever a person has configured."""
    path = repository.git_dir / "info" / "attributes"
    if not path.exists():
        write_atomically(path, "* -text -eol -ident -filter -working-tree-encoding\n")


def move_worktree(repository: Repository, old: str, new: str) -> list[Change]:
    """Bring index and work tree from tree ``old`` to tree ``new``.

    Both are ids of trees or commits. Returns what differs. git checks every path before it touches the first one. A
    file that git does not know stands in the way, unless it is one of a few (``FEW``) and as it will be.
    Raises EditedError with the path in the way, GitError for anything else (a full disk); after the latter call
    :func:`finish_move`.
    """
    changes = compare_trees(repository, old, new)
    if not changes:
        return changes
    root = repository.root
    untracked: list[str] = []
    for change in changes:
        there = change.old is None and os.path.lexists(root / change.path) and not _is_folder(repository, change)
        if there and read_disk_entry(root, change.path)[0] != change.new:  # else it is as it will be
            untracked.append(change.path)
    if untracked:
        raise _make_untracked_error(root, untracked)
    mark_step(f"move the work tree ({len(changes)} paths)")
    if len(changes) <= FEW and _is_simple(root, changes):
        _move_single_files(repository, changes)
        return changes
    for attempt in (1, 2):
        answer = repository.try_run("read-tree", "-m", "-u", old, new)
        if answer.status == 0:
            return changes
        blocked = _BLOCKED.search(answer.err)
        if blocked and attempt == 1:
            # perhaps only the recorded times are stale (a copied or bind-mounted tree): look at the contents, once
            repository.try_run("update-index", "-q", "--really-refresh")
            continue
        if blocked:
            if blocked["edited"]:
                raise _make_edited_error(root, blocked["edited"])
            raise _make_untracked_error(root, [blocked["untracked"] or blocked["folder"]])
        raise repository.make_error("read-tree", answer)
    return changes


def _is_simple(root: Path, changes: Sequence[Change]) -> bool:
    """Return whether plain writes suffice for the changes.

    No file turns into a directory or back, and no link stands in the way; else git decides.
    """
    changed = {change.path for change in changes}
    for change in changes:
        if _is_submodule(change) or ((root / change.path).is_dir() and not (root / change.path).is_symlink()):
            return False
        for parent in filter(None, list_parents(change.path)):
            if parent in changed or (root / parent).is_symlink() or (root / parent).is_file():
                return False
    return True


def _move_single_files(repository: Repository, changes: Sequence[Change]) -> None:
    """Move a few files: look at each one's content, write it, then its index entry."""
    paths = [change.path for change in changes]
    staged = read_index(repository, paths)
    for change in changes:
        expected = (change.old, change.new) if change.old is None else (change.old,)
        found = read_disk_entry(repository.root, change.path)[0]
        if found not in expected or staged.get(change.path) != change.old:
            raise _make_edited_error(repository.root, change.path)
    contents = read_blobs(repository, {change.new.id for change in changes if change.new})
    index, lock = repository.git_dir / "index", repository.git_dir / "index.lock"
    fresh = repository.state_folder / "scratch" / "moved.index"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(lock):
        raise _make_lock_error(lock)
    before = _read_stamp(index)
    shutil.copyfile(index, fresh)
    for change in changes:
        mark_step(f"move {change.path}")
        _write_path(repository, change, contents[change.new.id] if change.new else None)
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    repository.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=listed, index=fresh)
    mark_step("put the index in place")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))  # git's own protocol: who has made it may replace the index
    except FileExistsError:
        raise _make_lock_error(lock) from None
    try:
        if _read_stamp(index) != before:
            raise _make_lock_error(index)
        fresh.replace(index)
    finally:
        lock.unlink()


def _make_lock_error(path: Path) -> DecoupleError:
    return DecoupleError(
        f"{path}: another git command is at work in the tree",
        next_step="wait for it and run this again; a lock that a crash left can be removed",
    )


def _read_stamp(path: Path) -> tuple[int, int, int]:
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns


def _is_folder(repository: Repository, change: Change) -> bool:
    """Return whether a directory stands where a file will be.

    git refuses or replaces it on its own judgement.
    """
    path = repository.root / change.path
    return path.is_dir() and not path.is_symlink()


def read_disk_entry(root: Path, path: str) -> tuple[TreeEntry | None, bytes]:
    """Read the file at ``path`` as git would record it, and its bytes.

    ``(None, b"")`` if nothing is there.
    """
    full = root / path
    try:
        info = full.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, b""
    if stat.S_ISLNK(info.st_mode):
        data = os.fsencode(full.readlink())
        return TreeEntry(SYMLINK, hash_blob(data)), data
    if stat.S_ISDIR(info.st_mode):
        return None, b""
    if not stat.S_ISREG(info.st_mode):  # a pipe, a socket, a device: a person's, and reading it might never end
        return TreeEntry(stat.S_IFMT(info.st_mode), ""), b""
    data = full.read_bytes()
    return TreeEntry(EXECUTABLE if info.st_mode & 0o100 else REGULAR, hash_blob(data)), data


def has_begun(repository: Repository, changes: Iterable[Change]) -> bool:
    """Return whether a move over ``changes`` had begun when it was cut off.

    True if one path is as it will be, is gone, or holds the first part of its new content: what a kill leaves of a file
    that git was writing. An edited file alone does not count: git looks at every path before it touches one.
    """
    for change in changes:
        if _is_submodule(change):
            continue
        entry, data = read_disk_entry(repository.root, change.path)
        if entry is not None and not entry.id:
            continue  # a pipe or a socket, which no git leaves
        if entry == change.new or (entry is None and change.old is not None):
            return True
        if entry != change.old and _is_torn(repository, data, change.new):
            return True
    return False


def finish_move(repository: Repository, changes: Sequence[Change], rescue: Path, since: float) -> dict[str, Path]:
    """Finish a move that was cut off.

    Every path of ``changes`` gets its new state, whatever it holds now. A file with content that is neither old, new
    nor torn was edited after the cut; it is copied below ``rescue`` first; ``since`` is when the move began
    (`forget_stale_lock`). Returns the paths that were copied there, with the copy of each. Raises OSError (a full
    disk): call it again then.
    """
    rescued: dict[str, Path] = {}
    ours = [change for change in changes if not _is_submodule(change)]
    contents = read_blobs(repository, {change.new.id for change in ours if change.new})
    for change in ours:
        entry, data = read_disk_entry(repository.root, change.path)
        if entry == change.new:
            continue
        wanted = contents[change.new.id] if change.new else None
        torn = wanted is not None and wanted.startswith(data)
        if entry not in (change.old, None) and not torn:
            copy = find_free_name(rescue / change.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            mark_step(f"save {change.path}")
            copy.write_bytes(data)
            rescued[change.path] = copy
        mark_step(f"settle {change.path}")
        _write_path(repository, change, wanted)
    forget_stale_lock(repository, "index.lock", since)
    lines = "".join(
        f"{change.new.mode:o} {change.new.id} 0\t{change.path}\0" if change.new else f"0 {'0' * 40}\t{change.path}\0"
        for change in sorted(changes, key=lambda change: change.new is not None)
    )
    repository.run("update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"))
    repository.try_run("update-index", "-q", "--refresh")
    return rescued


def _write_path(repository: Repository, change: Change, data: bytes | None) -> None:
    """Bring one path into its new state.

    It is made in the repository and moved: a name in the work tree is a person's or git's, never ours.
    """
    root = repository.root
    full = root / change.path
    if change.new is None or data is None:
        full.unlink(missing_ok=True)
        for folder in full.parents:
            if folder == root:
                break
            try:
                folder.rmdir()
            except OSError:
                break
        return
    full.parent.mkdir(parents=True, exist_ok=True)
    scratch = repository.state_folder / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    temporary = scratch / "moving"
    temporary.unlink(missing_ok=True)
    try:
        if change.new.mode == SYMLINK:
            temporary.symlink_to(os.fsdecode(data))
        else:
            temporary.write_bytes(data)
            temporary.chmod(0o755 if change.new.mode == EXECUTABLE else 0o644)
        try:
            temporary.replace(full)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _move_to_other_disk(temporary, full)
    finally:
        temporary.unlink(missing_ok=True)


def _move_to_other_disk(temporary: Path, full: Path) -> None:
    """Move a finished file to another file system by a name that nobody has."""
    folder = Path(tempfile.mkdtemp(prefix=".decouple-", dir=full.parent))
    try:
        shutil.copy2(temporary, folder / "moving", follow_symlinks=False)
        (folder / "moving").replace(full)
    finally:
        remove_folder(folder, ignore_errors=True)


def is_new_lock(lock: Path, since: float) -> bool:
    """Return whether a lock file is there and no older than ``since``.

    ``since`` is a file's mtime; such a lock may be of our own git.
    """
    try:
        return lock.lstat().st_mtime >= since - 2  # a file system may round
    except FileNotFoundError:
        return False


def forget_stale_lock(repository: Repository, name: str, since: float) -> None:
    """Remove the lock file ``name`` that a git of ours left when it was killed.

    It was killed after ``since`` (a file's mtime). Another git's is not ours to remove: one that was there before our
    transaction began, or one of a repository in which a git process still lives. Raises DecoupleError then, after
    some seconds.
    """
    import time

    lock = repository.git_dir / name
    ends = time.monotonic() + 5.0
    while os.path.lexists(lock):
        ours = is_new_lock(lock, since)
        if ours and not has_git_process(repository.git_dir, repository.root):
            lock.unlink(missing_ok=True)
            return
        if time.monotonic() > ends or not ours:
            raise _make_lock_error(lock)
        time.sleep(0.1)


def forget_new_locks(repository: Repository, names: Iterable[str], since: float) -> None:
    """Remove those locks ``names`` that a killed git of ours left after ``since``.

    It is a file's mtime; older ones stay.
    """
    for name in names:
        if is_new_lock(repository.git_dir / name, since):
            forget_stale_lock(repository, name, since)


def forget_ref_locks(repository: Repository) -> None:
    """Remove locks of ``refs/decouple`` that a killed git left; others write none."""
    for lock in (repository.git_dir / "refs/decouple").glob("*.lock"):
        forget_stale_lock(repository, f"refs/decouple/{lock.name}", 0)


def has_git_process(git_dir: Path, root: Path) -> bool:
    """Return whether a git process works in this repository.

    It stands in it, or has one of its files open (``proc(5)``). Without a /proc nobody can tell: then it is taken to
    be so.
    """
    processes = Path("/proc")
    if not processes.is_dir():
        return True
    places = (root.resolve(), git_dir.resolve())  # as /proc names them
    for process in processes.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it ended, or is another user's
            if not (process / "comm").read_text().startswith("git"):
                continue
            links = [process / "cwd", *(process / "fd").iterdir()]
            for link in links:
                with contextlib.suppress(OSError):
                    if any(link.readlink().is_relative_to(place) for place in places):
                        return True
    return False


def _is_torn(repository: Repository, data: bytes, new: TreeEntry | None) -> bool:
    return new is not None and repository.run("cat-file", "blob", new.id).startswith(data)


def _is_submodule(change: Change) -> bool:
    return SUBMODULE in (change.old and change.old.mode, change.new and change.new.mode)
