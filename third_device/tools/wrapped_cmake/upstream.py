"""Import upstream's CMake helper from a PyTorch source tree; nothing is copied."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import WrappedCMakeError
from .parameters import Settings

_MODULE = "tools.setup_helpers.cmake"
_FILE = Path("tools", "setup_helpers", "cmake.py")


class CMake:
    """CMake for one build directory, by upstream's helper.

    ``tools.setup_helpers.cmake`` of ``tree`` finds, calls and reads it. Raises WrappedCMakeError when the helper cannot
    be imported.
    """

    def __init__(self, tree: Path, build_dir: Path) -> None:
        module = _load_helper(tree)
        self._helper: Any = module.CMake(str(build_dir))
        self.command: str = self._helper._cmake_command
        self.has_ninja: bool = module.USE_NINJA

    def arguments(self, definitions: Mapping[str, str]) -> list[str]:
        """``-D`` for every definition."""
        made: list[str] = []
        self._helper.defines(made, **definitions)
        return made

    def cache(self) -> dict[str, Any]:
        """Read the variables of ``CMakeCache.txt``.

        Raises OSError before a configure.
        """
        found: dict[str, Any] = self._helper.get_cmake_cache_variables()
        return found


def find_tree(settings: Settings) -> Path | None:
    """Return PyTorch's source tree; None where there is none.

    It is WRAPPED_CMAKE_TREE, else the tree that this toolkit was laid over. Raises WrappedCMakeError when the one that
    is named has no ``tools/setup_helpers/cmake.py``.
    """
    named = settings.text("WRAPPED_CMAKE_TREE")
    if not named:
        around = Path(__file__).resolve().parents[3]
        return around if (around / _FILE).is_file() else None
    tree = Path(named)
    if not (tree / _FILE).is_file():
        raise WrappedCMakeError(
            f"{tree}: no {_FILE}, so this is not a PyTorch source tree",
            "set WRAPPED_CMAKE_TREE to one, or unset it to do without",
        )
    return tree.resolve()


def _load_helper(tree: Path) -> ModuleType:
    """``tools.setup_helpers.cmake`` of ``tree``.

    Raises WrappedCMakeError when another package named ``tools`` was imported first: the helper of a different tree
    would speak about different variables.
    """
    path = str(tree)
    loaded: ModuleType | None = sys.modules.get(_MODULE)
    if loaded is None:
        writes = sys.dont_write_bytecode
        sys.dont_write_bytecode = True  # nothing that reads a tree changes it: others check it file by file
        sys.path.insert(0, path)
        try:
            importlib.import_module("setuptools")  # its distutils, which upstream's helper imports, from Python 3.12 on
            loaded = importlib.import_module(_MODULE)
        except ImportError as error:
            raise WrappedCMakeError(f"{tree}: {_MODULE} does not import: {error}", "install setuptools") from error
        finally:
            sys.path.remove(path)
            sys.dont_write_bytecode = writes
    if not str(loaded.__file__).startswith(path):
        raise WrappedCMakeError(
            f"{_MODULE} came from {loaded.__file__}, not from {tree}", "run this build in a fresh interpreter"
        )
    return loaded
