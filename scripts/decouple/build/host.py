"""Whether this machine's own toolchain suffices (``--env host``), and what it lacks."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from decouple.build import settings


def lacks(tree: Path, *, cuda: bool) -> list[str]:
    """What is missing for building ``tree`` here, one line each; empty when nothing is.

    Upstream's own source needs its submodules in third_party (Debian's source package has none).
    """
    table = settings.facts().host
    found = [f"{tool} is not on the PATH" for tool in table.tools if shutil.which(tool) is None]
    found += [
        f"Python module {name} is not installed" for name in table.modules if importlib.util.find_spec(name) is None
    ]
    if tree.is_dir():
        for name in table.submodules:
            folder = tree / "third_party" / name
            if not (folder.is_dir() and any(folder.iterdir())):
                found.append(f"{folder} is empty: this source has no submodules")
    if cuda and not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
        found.append("nvcc is not on the PATH")
    return found
