"""Moves the files of the work tree from one tree to another: only paths that differ are touched, so the rest keep
their mtimes and ninja rebuilds the minimum. A person's uncommitted edits are never overwritten."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.fault import step
from decouple.base.git import EXECUTABLE, REGULAR, SUBMODULE, SYMLINK, Repository
from decouple.stack.trees import Change, TreeEntry, blob_id, blobs, differences, parents

#: Up to so many paths are moved one by one: `git read-tree -m -u` walks the whole tree, however little differs
#: (0.1 s of processor time on PyTorch for one file).
FEW = 64
_BLOCKED = re.compile(r"(?:Entry|working tree file|file) '([^']*)'")


class EditedError(DecoupleError):
    """A file that has to change holds edits nobody committed."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(
            f"{path} {why} and would be overwritten",
            next_step="`decouple refresh` takes edits into the top patch, `git checkout -- FILE` drops them",
        )
        self.path = path


def move(repository: Repository, old: str, new: str) -> list[Change]:
    """Bring index and work tree from tree ``old`` to tree ``new`` (ids of trees or commits); returns what differs.

    git checks every path before it touches the first one. Raises EditedError with the path in the way, GitError for
    anything else (a full disk); after the latter call :func:`settle`.
    """
    changes = differences(repository, old, new)
    if not changes:
        return changes
    for change in changes:
        if change.old is None and os.path.lexists(repository.root / change.path) and not _is_folder(repository, change):
            raise EditedError(change.path, "is not under version control")
    step(f"move the work tree ({len(changes)} paths)")
    if len(changes) <= FEW and _is_simple(repository.root, changes):
        _move_few(repository, changes)
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
            raise EditedError(blocked.group(1), "has edits that are in no patch")
        raise repository.failed("read-tree", answer)
    return changes


def _is_simple(root: Path, changes: Sequence[Change]) -> bool:
    """Whether no file turns into a directory or back, and no link stands in the way: else git decides what may be."""
    changed = {change.path for change in changes}
    for change in changes:
        if _is_submodule(change) or ((root / change.path).is_dir() and not (root / change.path).is_symlink()):
            return False
        for parent in filter(None, parents(change.path)):
            if parent in changed or (root / parent).is_symlink() or (root / parent).is_file():
                return False
    return True


def _move_few(repository: Repository, changes: Sequence[Change]) -> None:
    """Move a few files by themselves: look at each one's content first, write them, then their index entries."""
    paths = [change.path for change in changes]
    staged = read_index(repository, paths)
    for change in changes:
        if on_disk(repository.root, change.path)[0] != change.old or staged.get(change.path) != change.old:
            raise EditedError(change.path, "has edits that are in no patch")
    contents = blobs(repository, {change.new.id for change in changes if change.new})
    index, lock = repository.git_dir / "index", repository.git_dir / "index.lock"
    fresh = repository.own / "scratch" / "moved.index"
    fresh.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(lock):
        raise _busy(lock)
    before = _stamp(index)
    shutil.copyfile(index, fresh)
    for change in changes:
        step(f"move {change.path}")
        _put(repository.root, change, contents[change.new.id] if change.new else None)
    listed = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    repository.run("update-index", "--add", "--remove", "-z", "--stdin", stdin=listed, index=fresh)
    step("put the index in place")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))  # git's own protocol: who has made it may replace the index
    except FileExistsError:
        raise _busy(lock) from None
    try:
        if _stamp(index) != before:
            raise _busy(index)
        fresh.replace(index)
    finally:
        lock.unlink()


def _busy(path: Path) -> DecoupleError:
    return DecoupleError(
        f"{path}: another git command is at work in the tree",
        next_step="wait for it and run this again; a lock that a crash left can be removed",
    )


def _stamp(path: Path) -> tuple[int, int, int]:
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns


def read_index(repository: Repository, paths: Sequence[str], index: Path | None = None) -> dict[str, TreeEntry]:
    """What the index holds at ``paths`` (all of it for no paths)."""
    entries: dict[str, TreeEntry] = {}
    for line in repository.run("ls-files", "-s", "-z", "--", *paths, index=index).split(b"\0")[:-1]:
        meta, path = line.split(b"\t", 1)
        mode, identity, _ = meta.decode().split(" ")
        entries[path.decode("utf-8", "surrogateescape")] = TreeEntry(int(mode, 8), identity)
    return entries


def _is_folder(repository: Repository, change: Change) -> bool:
    """Whether a directory stands where a file will be: git refuses or replaces it on its own judgement."""
    path = repository.root / change.path
    return path.is_dir() and not path.is_symlink()


def on_disk(root: Path, path: str) -> tuple[TreeEntry | None, bytes]:
    """The file at ``path`` as git would record it, and its bytes; ``(None, b"")`` if nothing is there."""
    full = root / path
    try:
        info = full.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, b""
    if stat.S_ISLNK(info.st_mode):
        data = os.fsencode(full.readlink())
        return TreeEntry(SYMLINK, blob_id(data)), data
    if stat.S_ISDIR(info.st_mode):
        return None, b""
    data = full.read_bytes()
    return TreeEntry(EXECUTABLE if info.st_mode & 0o100 else REGULAR, blob_id(data)), data


def begun(repository: Repository, changes: Iterable[Change]) -> bool:
    """Whether a move over ``changes`` had begun when it was cut off.

    True if one path is as it will be, is gone, or holds the first part of its new content: what a kill leaves of a file
    that git was writing. An edited file alone does not count: git looks at every path before it touches one.
    """
    for change in changes:
        if _is_submodule(change):
            continue
        entry, data = on_disk(repository.root, change.path)
        if entry == change.new or (entry is None and change.old is not None):
            return True
        if entry != change.old and _is_torn(repository, data, change.new):
            return True
    return False


def settle(repository: Repository, changes: Sequence[Change], rescue: Path) -> list[str]:
    """Finish a move that was cut off: put every path of ``changes`` into its new state, whatever it holds now.

    A file with content that is neither old, new nor torn was edited after the cut; it is copied below ``rescue``
    first. Returns the paths that were copied there. Raises OSError (a full disk): call it again then.
    """
    rescued: list[str] = []
    ours = [change for change in changes if not _is_submodule(change)]
    contents = blobs(repository, {change.new.id for change in ours if change.new})
    for change in ours:
        entry, data = on_disk(repository.root, change.path)
        if entry == change.new:
            continue
        wanted = contents[change.new.id] if change.new else None
        torn = wanted is not None and wanted.startswith(data)
        if entry not in (change.old, None) and not torn:
            copy = rescue / change.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            step(f"save {change.path}")
            copy.write_bytes(data)
            rescued.append(change.path)
        step(f"settle {change.path}")
        _put(repository.root, change, wanted)
    _forget_stale_lock(repository.git_dir / "index.lock")
    lines = "".join(
        f"{change.new.mode:o} {change.new.id} 0\t{change.path}\0" if change.new else f"0 {'0' * 40}\t{change.path}\0"
        for change in sorted(changes, key=lambda change: change.new is not None)
    )
    repository.run("update-index", "-z", "--index-info", stdin=lines.encode("utf-8", "surrogateescape"))
    repository.try_run("update-index", "-q", "--refresh")
    return rescued


def _put(root: Path, change: Change, data: bytes | None) -> None:
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
    temporary = full.with_name(f".{full.name}.decouple")
    temporary.unlink(missing_ok=True)
    try:
        if change.new.mode == SYMLINK:
            temporary.symlink_to(os.fsdecode(data))
        else:
            temporary.write_bytes(data)
            temporary.chmod(0o755 if change.new.mode == EXECUTABLE else 0o644)
        temporary.replace(full)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _forget_stale_lock(lock: Path, patience: float = 5.0) -> None:
    """Wait for a git that outlived us, then remove the lock file that a killed one left."""
    import time

    waited = 0.0
    while lock.exists() and waited < patience:
        age = time.time() - lock.lstat().st_mtime
        if age > patience:
            break
        time.sleep(0.1)
        waited += 0.1
    lock.unlink(missing_ok=True)


def _is_torn(repository: Repository, data: bytes, new: TreeEntry | None) -> bool:
    return new is not None and repository.run("cat-file", "blob", new.id).startswith(data)


def _is_submodule(change: Change) -> bool:
    return SUBMODULE in (change.old and change.old.mode, change.new and change.new.mode)
