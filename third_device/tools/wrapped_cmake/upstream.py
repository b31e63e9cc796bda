"""Upstream's own CMake helper, imported from a PyTorch source tree. Nothing of it is copied here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from .errors import WrappedCMakeError
from .parameters import Settings

_MODULE = "tools.setup_helpers.cmake"


def find_tree(settings: Settings) -> Path:
    """PyTorch's source tree: WRAPPED_CMAKE_TREE, else the tree that this toolkit was laid over.

    Raises WrappedCMakeError when neither has ``tools/setup_helpers/cmake.py``.
    """
    named = settings.text("WRAPPED_CMAKE_TREE")
    tree = Path(named) if named else Path(__file__).resolve().parents[3]
    if not (tree / "tools" / "setup_helpers" / "cmake.py").is_file():
        raise WrappedCMakeError(
            f"{tree}: no tools/setup_helpers/cmake.py, so this is not a PyTorch source tree",
            "set WRAPPED_CMAKE_TREE to one, or run `nox -s apply-2.6`",
        )
    return tree


def helper(tree: Path) -> ModuleType:
    """``tools.setup_helpers.cmake`` of ``tree``.

    Raises WrappedCMakeError when another package named ``tools`` was imported first: the helper of a different tree
    would speak about different variables.
    """
    importlib.import_module("setuptools")  # provides distutils, which upstream's helper imports, from Python 3.12 on
    path = str(tree)
    loaded: ModuleType | None = sys.modules.get(_MODULE)
    if loaded is None:
        sys.path.insert(0, path)
        try:
            loaded = importlib.import_module(_MODULE)
        except ImportError as error:
            raise WrappedCMakeError(f"{tree}: {_MODULE} does not import: {error}", "install setuptools") from error
        finally:
            sys.path.remove(path)
    if not str(loaded.__file__).startswith(path):
        raise WrappedCMakeError(
            f"{_MODULE} came from {loaded.__file__}, not from {tree}", "run this build in a fresh interpreter"
        )
    return loaded
