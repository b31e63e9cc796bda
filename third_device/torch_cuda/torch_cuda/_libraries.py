"""Open this package's libraries.

The CUDA libraries that they need may be installed anywhere.

The run paths in the libraries cover the usual case (pip put ``torch``, ``nvidia`` and ``torch_cuda`` beside each other,
or the system has CUDA). Where packages are spread over several folders of ``sys.path`` (a virtual environment over the
system's packages) the dynamic linker names the first library it misses; it is then opened by its path and the first
attempt is repeated.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["LibraryError", "open_first", "open_library", "search_folders"]

# What follows is in the language of the program's locale. A library that was found but is no good has a path here.
_MISSING = re.compile(r"^([^\s:/]+\.so[.\d]*): ")


class LibraryError(ImportError):
    """A library could not be opened; the message names it and what to install."""


def search_folders(torch_folder: Path, path: Iterable[str]) -> list[Path]:
    """Return folders that may hold what we need.

    They are torch's own, then ``nvidia/*/lib`` below each of *path*. A relative one is none: a library must not be
    opened because somebody works beside it.
    """
    found = [torch_folder / "lib"]
    for entry in map(Path, path):
        if entry.is_absolute():
            found.extend(sorted(entry.glob("nvidia/*/lib")))
            found.append(entry / "cusparselt" / "lib")  # where nvidia-cusparselt-cu12 puts itself
    return [folder for folder in found if folder.is_dir()]


def open_library(library: Path, folders: Iterable[Path]) -> ctypes.CDLL:
    """Open *library* for everyone (``RTLD_GLOBAL``).

    What it misses is opened from *folders* first. Raises LibraryError when something that it needs is in none of them,
    or cannot be opened.
    """
    places = list(folders)
    opened: set[str] = set()
    while True:
        try:
            return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            missing = _find_missing(error)
            if missing is None or missing in opened:
                raise LibraryError(f"{library}: {error}{_name_search_path()}") from error
            opened.add(missing)
            _open_missing(missing, library, places, opened)


def open_first(name: str, folders: Iterable[Path]) -> ctypes.CDLL | None:
    """Open library *name* for everyone out of the first folder that has it.

    None where none does: the system may.
    """
    return next((ctypes.CDLL(str(one), mode=ctypes.RTLD_GLOBAL) for one in _list_candidates(name, [*folders])), None)


def _open_missing(name: str, wanted_by: Path, folders: list[Path], opened: set[str]) -> None:
    """Open library *name* out of *folders*, and before it whatever it misses itself."""
    for candidate in _list_candidates(name, folders):
        while True:
            try:
                ctypes.CDLL(str(candidate), mode=ctypes.RTLD_GLOBAL)
                return
            except OSError as error:
                missing = _find_missing(error)
                if missing is None or missing in opened:
                    said = f"{candidate} (needed by {wanted_by.name}): {error}{_name_search_path()}"
                    raise LibraryError(said) from error
                opened.add(missing)
                _open_missing(missing, candidate, folders, opened)
    raise LibraryError(
        f"{wanted_by.name} needs {name}, which is neither on the system nor below nvidia/ in site-packages; "
        f"pip install the requirements of {str(__package__).replace('_', '-')}, or install its vendor's libraries"
    )


def _name_search_path() -> str:
    """Name LD_LIBRARY_PATH, whose libraries the dynamic linker takes before ours."""
    folders = os.environ.get("LD_LIBRARY_PATH")
    said = f"; LD_LIBRARY_PATH={folders} goes before pip's libraries: unset it where it names another toolkit's"
    return said if folders else ""


def _list_candidates(name: str, folders: list[Path]) -> Iterator[Path]:
    return (folder / name for folder in folders if (folder / name).is_file())


def _find_missing(error: OSError) -> str | None:
    found = _MISSING.match(str(error))
    return found.group(1) if found else None
