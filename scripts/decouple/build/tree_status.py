"""Hide from git what a build, or upstream's tests, made in an applied tree.

Nothing that a person made is hidden: of what is new when the work is over, a source stays visible unless it lies where
upstream's build writes sources, since a person may have added it meanwhile. A pristine tree has no ``.gitignore``, so
the patterns go to ``.git/info/exclude``. What was there before stands in a note, one of each work, which is locked as
long as the work goes on. A process of its own waits for the end: where the work is killed it does what was left to do,
and what a kill of both leaves is done by the next work, or by who lists a person's files.

    python -P -m decouple.build.tree_status TREE NOTE
"""

from __future__ import annotations

import contextlib
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import hold_lock, write_atomically
from decouple.base.git import name_status, run_git, split_names
from decouple.base.interpreter import OWN
from decouple.build import settings

MADE = (
    "/build/",
    "/build-host/",
    "/build-rootfs/",
    "/build-portable*/",
    "__pycache__/",
    ".pytest_cache/",
    ".hypothesis/",
    "*.egg-info/",
)
"""What builds and tests leave wherever they run."""
_SOURCE = re.compile(
    r".*\.(?:[chS]|cc|cpp|cxx|hh|hpp|hxx|inl|inc|cu|cuh|hip|m|mm|metal|glsl|asm|s|py|pyx|sh|cmake|bzl|in"
    r"|template|proto|fbs|thrift|lds?|bazel|ya?ml|toml|patch|md|rst)|(?:.*/)?(?:CMakeLists\.txt|BUILD|Makefile)"
)
"""What a person writes: no product of a compiler, no report."""
_SHOWN = 3
_SPECIAL = re.compile(r"[\\*?\[!#]|\s(?=\s*$)")
_NOTE = "unknown-before-"


@contextlib.contextmanager
def keep_clean(tree: Path, name: str, say: Callable[[str], None] = lambda _: None) -> Iterator[tuple[int, ...]]:
    """Let `git status` say afterwards what it says now of untracked files.

    Of tracked files, of what a person has there already, and of sources that a person may have added meanwhile it says
    all; of these ``say`` tells, too. ``name`` is the work's, of which several may go on at once. Yields the open file
    of its lock, if it has one: who inherits that is waited for where the work is killed. Raises DecoupleError when
    ``tree`` is no applied tree.
    """
    _finish_killed_works(tree)
    unknown = _list_unknown_paths(tree)
    if not (tree / ".git").is_dir():  # a work tree of a person's repository, which is not ours to write to
        yield ()
        return
    exclude_patterns(tree)
    note = tree / ".git" / f"{_NOTE}{name}-{secrets.token_hex(4)}"
    part = note.with_name(f".{note.name}")
    write_atomically(part, "\0".join(sorted(unknown)).encode("utf-8", "surrogateescape"))
    command, quiet = [*OWN, "-m", __spec__.name, str(tree), note.name], subprocess.DEVNULL
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True),
        hold_lock(part) as held,
    ):
        part.rename(note)  # locked before it has its name: a note that nobody holds is of a work that was killed
        try:
            yield (held,)
        finally:
            if added := _exclude_new_files(tree, note):
                more = f" and {len(added) - _SHOWN} more" if len(added) > _SHOWN else ""
                say(f"{name}: came to {tree} meanwhile, and counts from now on: {', '.join(added[:_SHOWN])}{more}")


def exclude_patterns(tree: Path, patterns: Sequence[str] = MADE) -> None:
    """Add ``patterns`` to ``.git/info/exclude`` of an applied tree.

    One process at a time: of two builds that end together one would take back what the other added.
    """
    path = tree / ".git" / "info" / "exclude"
    if not (tree / ".git").is_dir():
        return
    path.parent.mkdir(exist_ok=True)
    with hold_lock(path.parent):
        old = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
        if new := [pattern for pattern in patterns if pattern not in old.split("\n")]:
            data = "".join([old, "" if old.endswith("\n") or not old else "\n", *(f"{line}\n" for line in new)])
            write_atomically(path, data.encode("utf-8", "surrogateescape"))


def _exclude_new_files(tree: Path, note: Path) -> list[str]:
    """Exclude what is new since the work of ``note`` began; the note goes.

    Returns the sources that are new, too, and stay visible. Who calls it holds the note.
    """
    try:
        known = _read_note(note)
    except FileNotFoundError:  # the tree was made anew meanwhile
        return []
    old = tuple(path for path in known if path.endswith("/"))
    files = {path for path in _list_unknown_files(tree) if path not in known and not path.startswith(old)}
    doubtful = files.intersection(_list_unknown_files(tree, settings.find_stage(1).writes))
    sources = {path for path in doubtful if _SOURCE.fullmatch(path)}
    # whole folders only where all of one is upstream's build's: to another, also an empty one, a person may add files
    folders = [path for path in _list_unknown_paths(tree) - known if path.endswith("/")]
    theirs = {path for path in folders if not any(file.startswith(path) for file in doubtful)}
    whole = tuple(path for path in theirs if any(file.startswith(path) for file in files))
    made = [*whole, *(path for path in files - sources if not path.startswith(whole))]
    exclude_patterns(tree, ["/" + _SPECIAL.sub(r"\\\g<0>", path) for path in sorted(made) if "\n" not in path])
    note.unlink(missing_ok=True)
    return sorted(sources)


def _finish_killed_works(tree: Path) -> None:
    """Exclude what works made of which nobody is left to do it."""

    def leave_it() -> None:
        raise BlockingIOError

    for note in (tree / ".git").glob(f"{_NOTE}*"):
        with contextlib.suppress(BlockingIOError, FileNotFoundError, PermissionError):  # it goes on, or ended just now
            with hold_lock(note, leave_it, make=False):
                _exclude_new_files(tree, note)


def list_new_files(tree: Path) -> list[str]:
    """List the files that a person made and git does not know yet, sorted.

    What builds and tests make is not among them: while they run, nothing that came since; what those that were killed
    left is excluded first. In a work tree of a person's repository, where nobody excludes that, there are none. A
    repository in the tree is one file.
    """
    if not (tree / ".git").is_dir():
        return []
    _finish_killed_works(tree)
    notes = []  # read before the files are listed: what a work leaves when it ends is excluded then
    for note in (tree / ".git").glob(f"{_NOTE}*"):
        with contextlib.suppress(FileNotFoundError):  # it ended just now
            notes.append(_read_note(note))
    names = _list_unknown_files(tree, MADE)
    for known in notes:
        folders = tuple(path for path in known if path.endswith("/"))
        names = [name for name in names if name in known or name.startswith(folders)]
    return sorted(names)


def is_applied(tree: Path) -> bool:
    """Return whether a folder is an applied tree with our own ``.git``, no clone."""
    return (tree / ".git/decouple/state.json").is_file()


def _read_note(path: Path) -> set[str]:
    return set(path.read_bytes().decode("utf-8", "surrogateescape").split("\0"))


def _list_unknown_paths(tree: Path) -> set[str]:
    """Return what git neither knows nor ignores; a folder of such files is one.

    One without files is none: a build that takes back what it installed leaves it, and the next one fills it again.
    """
    if not (tree / ".git").exists():
        raise DecoupleError(f"{tree}: not an applied tree", next_step="run `decouple apply RELEASE` first")
    return set(split_names(_run_ls_files(tree, "--directory", "--no-empty-directory")))


def _list_unknown_files(tree: Path, without: Sequence[str] = ()) -> list[str]:
    """Return files that git neither knows nor ignores.

    Those of the patterns ``without`` are left out.
    """
    return split_names(_run_ls_files(tree, *(f"--exclude={pattern}" for pattern in without)))


def _run_ls_files(tree: Path, *options: str) -> bytes:
    step = f"{name_status(tree)} shows the state it is in"
    return run_git("ls-files", "-z", "--others", "--exclude-standard", *options, cwd=tree, next_step=step)


def main(tree: str, name: str) -> None:
    """Wait until the work is done or dead; then do what it could not."""
    sys.stdin.buffer.read()
    note = Path(tree, ".git", name)
    with contextlib.suppress(FileNotFoundError):  # it is done
        with hold_lock(note, make=False):  # what the work started may go on for a while
            _exclude_new_files(Path(tree), note)


if __name__ == "__main__":
    main(*sys.argv[1:])
