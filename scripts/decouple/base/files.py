"""Write files so that a reader sees the old bytes or the new, never a mixture."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from decouple.base.errors import DecoupleError, UsageError
from decouple.base.steps import mark_step

TYPE_CHECKING = False  # as typing has it; importing typing would take longer than all else here
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""What the system calls answer when there is no room."""
_LEAST_ROOM = 64 << 10
"""Bytes; git, compilers and archives write more at once than this."""


def write_atomically(path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
    """Replace ``path`` by ``data`` (str as UTF-8): temporary sibling, fsync, rename.

    Raises OSError.
    """
    payload = data.encode("utf-8") if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    mark_step(f"create a temporary file for {path.name}")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(payload)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(mode)
        mark_step(f"rename {path.name} into place")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_output(path: Path, data: bytes | str) -> None:
    """Write ``data`` (str as UTF-8) where a person asked for it. Raises OSError.

    Of names that are no UTF-8, each surrogate is written as JSON's escape for it.

    A device or a pipe (``/dev/null``, ``/dev/stdout``, ``>(program)`` of a shell) takes it and stays what it is; a
    link stays one, and the file that it leads to is replaced.
    """
    payload = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
    if is_stream(path) or path.is_dir():
        with path.open("wb") as out:
            out.write(payload)
    else:
        write_atomically(Path(os.path.realpath(path)), payload)  # of links in a circle, too: resolve() refuses those


def check_output(path: Path) -> None:
    """Raise OSError where :func:`write_output` could not write; for before the work."""
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not is_stream(path):  # not of target: a pipe behind /dev/stdout has no path of its own
            folder = next(parent for parent in target.parents if os.path.lexists(parent))
            tempfile.TemporaryFile(dir=folder).close()  # os.access allows root all, and knows of no quota
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_stream(path: Path) -> bool:
    """Say whether ``path`` is a device or a pipe: what is written there stays."""
    if not path.exists():  # /dev/shm takes new files
        return False
    return path.absolute().parts[1:2] in (("dev",), ("proc",)) or not (path.is_file() or path.is_dir())


def has_no_room(*places: Path) -> bool:
    """Say whether a file system of ``places`` is full.

    Full means: too few free bytes for a small file, or no inode.

    A place that is not there stands for the nearest folder above it. What a program says of a full disk differs from
    one version and language to the next; ``statvfs`` does not.
    """
    for place in places:
        nearest = next(
            (folder for folder in (place.absolute(), *place.absolute().parents) if folder.exists()), Path("/")
        )
        try:
            info = os.statvfs(nearest)
        except OSError:
            continue
        if info.f_flag & os.ST_RDONLY:  # an image, such as squashfs, has no free block, and nothing is written there
            continue
        free = info.f_bfree if os.geteuid() == 0 else info.f_bavail  # root may have the reserve
        inodes = info.f_ffree if os.geteuid() == 0 else info.f_favail
        if free * info.f_frsize < _LEAST_ROOM or (info.f_files and not inodes):
            return True
    return False


def is_disk_full_message(text: str) -> bool:
    """Say whether ``text`` has the C library's words for a full disk or quota.

    A program that gave its space back says them, too.
    """
    return any(os.strerror(number) in text for number in NO_SPACE)


def create_file(path: Path) -> BinaryIO:
    """Open ``path`` as a new, empty file.

    It replaces what a killed run or somebody else left there.

    For a temporary file whose name can be known before: no link is followed and no FIFO waited for. Raises OSError.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "w+b")


def open_for_append(path: Path) -> TextIO:
    """Open a log or results that go on from run to run, for more lines in UTF-8.

    ``path`` is made where it is not there.

    What is not a file of one name is not written to: a link that somebody planted leads anywhere. Raises DecoupleError
    then, and OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO that nobody reads
            raise
        raise _make_link_error(path) from None
    info = os.fstat(handle)
    if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
        os.close(handle)
        raise _make_link_error(path)
    return os.fdopen(handle, "a", encoding="utf-8", errors="replace")


def _make_link_error(path: Path) -> DecoupleError:
    return DecoupleError(
        f"{path}: no file of its own, but a link or a pipe", next_step=f"rm {shlex.quote(str(path))} and run again"
    )


def clear_folder(path: Path) -> None:
    """Remove a folder of ours and all that is in it.

    Where a link stands in its place, the link is removed. What cannot be removed stays.
    """
    if path.is_symlink() or path.is_file():
        path.unlink()
    remove_folder(path, ignore_errors=True)


def find_free_name(path: Path) -> Path:
    """Return ``path``, with a number behind it where it is taken.

    So what was kept there is not overwritten.
    """
    names = itertools.chain([path], (path.with_name(f"{path.name}.{number}") for number in itertools.count(1)))
    return next(name for name in names if not os.path.lexists(name))


def compute_sha256(path: Path) -> str:
    """Compute a file's SHA-256, as 64 hex digits."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def walk_files(
    root: Path | str, enters: Callable[[str], bool] = lambda name: True
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every entry below ``root`` that is no folder.

    Each comes with its path relative to ``root``, in no order. Links are not followed.

    ``enters`` says of a folder's path whether to look into it. However deep folders are nested, as `os.walk` and what
    calls itself cannot. Raises OSError.
    """
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                name = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield name, entry
                elif enters(name):
                    pending.append(f"{name}/")


def copy_folders(source: Path, target: Path, names: Iterable[str]) -> Path:
    """Copy those of ``names`` that are folders of ``source`` into ``target``.

    Links stay links. Returns ``target``.
    """
    for name in names:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, symlinks=True)
    return target


def remove_folder(folder: Path | str, *, ignore_errors: bool = False) -> None:
    """Delete ``folder`` and all below it, however deep.

    `shutil.rmtree` before Python 3.14 calls itself for each level.

    Raises OSError unless ``ignore_errors``.
    """
    try:
        shutil.rmtree(folder, ignore_errors=ignore_errors)
    except RecursionError:
        try:
            _flatten_folder(folder)
            shutil.rmtree(folder, ignore_errors=ignore_errors)
        except OSError:
            if not ignore_errors:
                raise


def _flatten_folder(folder: Path | str) -> None:
    """Move every folder below ``folder`` right into it.

    Then none is deep, and no path is too long to be named.
    """
    moved = itertools.count()
    pending = [os.fspath(folder)]
    while pending:
        current = pending.pop()
        with os.scandir(current) as entries:
            below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        for entry in below:
            place = f"{folder}/.{next(moved)}.moved"
            os.rename(entry.path, place)  # noqa: PTH104 - thousands of times
            pending.append(place)


def restore_files(paths: Iterable[Path], before: Mapping[Path, bytes]) -> None:
    """Put each of ``paths`` back as ``before`` has it, the last first.

    One that ``before`` lacks goes, and its folder with it where that is empty then. Raises OSError.
    """
    for path in reversed(list(paths)):
        if path in before:
            write_atomically(path, before[path])
            continue
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()


def is_unreadable(path: str) -> bool:
    """Say whether ``path`` is, or links to, what is no regular file.

    Reading a folder fails, and a pipe, socket or device may make its reader wait for ever.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - asked thousands of times
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode)


@contextlib.contextmanager
def hold_lock(
    path: Path, busy: Callable[[], None] = lambda: None, *, shared: bool = False, make: bool = True
) -> Iterator[int]:
    """Hold an advisory lock (``flock``) on ``path``.

    It goes with the process, so a killed run leaves none behind.

    ``path`` is a file, made where it is not there (FileNotFoundError without ``make``), or a folder that is there.
    ``shared``: with others that do so.

    Where another run holds it, ``busy`` is called before the wait: to say so, or to raise instead of waiting. Yields
    the open file's number: a child that inherits it holds the lock as well, also when it outlives this process. Raises
    DecoupleError where a link stands in its place, OSError.
    """
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        how = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
        try:
            handle = os.open(path, how | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise (_make_link_error(path) if error.errno == errno.ELOOP else error) from None
        try:
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                busy()
                fcntl.flock(handle, kind)
            if how == os.O_RDONLY or _is_open_as(handle, path):
                yield handle
                return
        finally:
            os.close(handle)
        # who held it deleted it, as `decouple clean` does; the next one would make another file and hold that


def _is_open_as(handle: int, path: Path) -> bool:
    """Say whether the open file is the one that is called ``path`` now."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def refuse_file(folder: Path, next_step: str = "name a folder, or a new name for one") -> None:
    """Raise UsageError where a file is in the place of ``folder``, or above it.

    It need not be there.
    """
    nearest = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not nearest.is_dir():
        raise UsageError(f"{folder}: a file is in the place of this folder", next_step=next_step)


@contextlib.contextmanager
def make_work_folder(folder: Path, name: str) -> Iterator[Path]:
    """Make an empty folder in ``folder`` and remove it at the end.

    It is for what moves to its place there when it is whole, and is called ``.NAME.RANDOM.part``.

    ``folder`` is locked meanwhile, so one of that name was left by a killed run; it is deleted. Raises UsageError
    where a file is in its place.
    """
    left = re.compile(rf"\.{re.escape(name)}\.[a-z0-9_]{{8}}\.part")  # as tempfile names them
    refuse_file(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder):
        for path in folder.iterdir():
            if left.fullmatch(path.name):
                remove_folder(path, ignore_errors=True)
        # whole, as programs run elsewhere are given it: before Python 3.12 its name is as relative as the folder's
        with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".part", dir=folder.absolute()) as created:
            yield Path(created)


@contextlib.contextmanager
def make_scratch_folder(folder: Path, name: str) -> Iterator[Path]:
    """Make an empty folder in ``folder`` and remove it at the end.

    It is called ``NAME-RANDOM``. Unlike with `make_work_folder`, several runs may have one each: it is locked as long
    as its run lives. Those of killed runs are deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{name}-????????"):  # as tempfile names them
        if left.is_dir() and not left.is_symlink():
            with contextlib.suppress(OSError), hold_lock(left, _refuse_wait, make=False):
                remove_folder(left, ignore_errors=True)
    with contextlib.ExitStack() as held:
        while True:
            created = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.absolute()))
            with contextlib.suppress(FileNotFoundError):  # another run took it for one that was left
                if _is_open_as(held.enter_context(hold_lock(created, make=False)), created):
                    break
        try:
            yield created
        finally:
            remove_folder(created, ignore_errors=True)


def _refuse_wait() -> None:
    raise BlockingIOError


def replace_sections(page: Path, sections: Mapping[str, str], *, write: bool = True) -> bool:
    """Put each text between the markers of its name on a page.

    Returns whether any differed. The markers of ``NAME`` are ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``. The
    page is written once, so that a kill leaves all of its sections old or all new; without ``write`` it is only looked
    at. Raises DecoupleError, and writes nothing, when the page lacks the markers of a name.
    """
    before = after = page.read_text(encoding="utf-8")
    for name, text in sections.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, opening, rest = after.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (opening and closed):
            raise DecoupleError(f"{page}: no {begin} … {end}", next_step="put both markers where the text belongs")
        after = f"{head}{begin}\n{text}{end}{tail}"
    if write and after != before:
        write_atomically(page, after)
    return after != before
