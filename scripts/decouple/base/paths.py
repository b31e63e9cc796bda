"""Where things are: the checkout this runs in, the shared cache."""

from __future__ import annotations

import os
from pathlib import Path

from decouple.base.errors import UsageError


def find_project() -> Path:
    """Find the checkout that holds ``series/`` and ``patches/``.

    It is ``$DECOUPLE_PROJECT``, or the nearest parent.

    Falls back to the checkout this package was imported from (an editable install), so that the
    console script works from any folder. Raises UsageError when there is none.
    """
    named = os.environ.get("DECOUPLE_PROJECT")
    if named:
        candidates = [Path(named).absolute()]
    else:
        here = Path.cwd()
        candidates = [here, *here.parents, *Path(__file__).resolve().parents]
    for folder in candidates:
        if (folder / "series").is_dir() and (folder / "patches").is_dir():
            return folder
    raise UsageError(
        f"no checkout with series/ and patches/ at or above {candidates[0]}",
        next_step="cd into the checkout, or set DECOUPLE_PROJECT to it",
    )


def find_cache() -> Path:
    """Find the cache that all checkouts share.

    It is ``$DECOUPLE_CACHE``, else ``decouple`` in the XDG cache directory.

    Raises UsageError where nothing says where a home is.
    """
    named = read_folder_variable("DECOUPLE_CACHE")
    if named:
        return named
    base = os.environ.get("XDG_CACHE_HOME")  # a relative one is to be ignored, says its specification
    return (Path(base) if base and Path(base).is_absolute() else find_home() / ".cache") / "decouple"


def read_folder_variable(name: str) -> Path | None:
    """Return the absolute path of the folder that a variable names, None where unset.

    A relative one is of the current folder: programs that are given it start in others. Raises UsageError for a "~",
    which only a shell replaces, and only where it is not quoted.
    """
    named = os.environ.get(name)
    if named and named.startswith("~"):
        raise UsageError(f"{name} is {named!r}: no shell replaced the ~", next_step=f"set {name} to an absolute path")
    return Path(named).absolute() if named else None


def find_home() -> Path:
    """Find the person's home folder. Raises UsageError where nothing says it."""
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user whom the system has no entry for
        home = Path()
    if not home.is_absolute():
        raise UsageError(f"no home folder: HOME is {os.environ.get('HOME')!r}", next_step="set DECOUPLE_CACHE")
    return home


def expand_home(path: Path) -> Path:
    """Replace a leading ``~`` or ``~USER``.

    Raises UsageError where nothing says that home.
    """
    try:
        return path.expanduser()
    except RuntimeError:  # a shell, too, leaves a user whom it does not know as he is
        raise UsageError(f"{path}: {path.parts[0]} names no home folder", next_step="name an absolute path") from None
