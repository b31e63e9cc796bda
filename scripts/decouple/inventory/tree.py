"""List the files of one tree, its build lists, and paths that look like CUDA's.

All this is told without a compiler.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from pathlib import Path

from decouple.base.errors import DecoupleError
from decouple.base.files import is_unreadable, walk_files
from decouple.inventory.rules import RuleFile
from decouple.syntax.build_lists import CMakeLists, read_bzl
from decouple.syntax.globs import find_match

HEADER_SUFFIXES = (".h", ".hpp", ".cuh")


def list_files(tree: Path, folders: Iterable[str]) -> list[str]:
    """List the files below ``folders`` of ``tree`` as sorted POSIX paths.

    Byte-compiled Python, ``.git`` and pipes are no sources. Raises DecoupleError when none of the folders is there (not
    a PyTorch tree).
    """
    out: list[str] = []
    for folder in folders:
        if (tree / folder).is_dir():
            entries = walk_files(tree / folder, lambda name: name.rpartition("/")[2] not in (".git", "__pycache__"))
            paths = (f"{Path(folder).as_posix()}/{name}".removeprefix("./") for name, _ in entries)
            out.extend(path for path in paths if not is_unreadable(f"{tree}/{path}"))
    if not out:
        raise DecoupleError(f"{tree}: holds none of {', '.join(folders)}", next_step="give the root of a PyTorch tree")
    return sorted(out)


class BuildLists:
    """The source lists of one tree, by name.

    They are read from ``build_variables.bzl`` and the CMake files that the rules name.
    """

    def __init__(self, tree: Path, files: Iterable[str], rules: RuleFile) -> None:
        present = frozenset(files)
        bzl_path = tree / rules.scope.bzl
        self._bzl = read_bzl(bzl_path) if bzl_path.exists() else {}
        cmake_files = [name for name in rules.scope.cmake_files if (tree / name).exists()]
        self._cmake = CMakeLists(tree, cmake_files, present, self._bzl)
        self._present = present

    def list_members(self, names: Iterable[str]) -> frozenset[str]:
        """List the files of the tree that any list with a name like ``names`` holds."""
        patterns = tuple(names)
        out: set[str] = set()
        for name, paths in self._bzl.items():
            if find_match(name, patterns):
                out.update(path for path in paths if path in self._present)
        for name in self._cmake.list_variables():
            if find_match(name, patterns):
                out.update(self._cmake.get(name))
        return frozenset(out)


def is_suspect(path: str, rules: RuleFile) -> bool:
    """Say whether the path alone looks like CUDA's."""
    lowered = f"/{path.lower()}"
    return any(word in lowered for word in rules.scope.words) or path.endswith(rules.scope.suffixes)


def list_include_names(path: str, folders: Iterable[str]) -> list[str]:
    """List the names by which ``#include`` reaches ``path``.

    It goes through the ``-I`` folders. "." is the tree itself.
    """
    names = (path if folder == "." else posixpath.relpath(path, folder) for folder in folders)
    return [name for name in names if not name.startswith("../")]
