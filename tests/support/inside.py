"""The scripts of ``build/inside``, which run in a root by themselves, as modules to test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

INSIDE = Path(__file__).parents[2] / "scripts/decouple/build/inside"


def load_script(name: str) -> ModuleType:
    """Load the script ``name``, without its ``.py``."""
    spec = importlib.util.spec_from_file_location(name, INSIDE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
