"""Load the shadows with torch, and keep the ledgers of a test's processes.

It is on the module path of every Python under ``python -m simcuda run``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch as the others do, and loads the shadows when it has been executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for ``torch`` whose loader does one thing more; else None.

        Many programs ask for one only to see whether there is a torch, and again when they import it.
        """
        if name != "torch":
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                module.ops.load_library(os.environ["SIMCUDA_SHADOW"])

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if os.environ.get("SIMCUDA_SHADOW"):
    sys.meta_path.insert(0, TorchFinder())

if os.environ.get("SIMCUDA_PROCESSES"):
    from simcuda.processes import register_writer

    register_writer(Path(os.environ["SIMCUDA_PROCESSES"]))

# the sitecustomize that this one hides
HERE = Path(__file__).resolve().parent
REST = [entry for entry in sys.path if entry and Path(entry).resolve() != HERE]
if (hidden := importlib.machinery.PathFinder.find_spec("sitecustomize", REST)) and hidden.loader:
    hidden.loader.exec_module(importlib.util.module_from_spec(hidden))
