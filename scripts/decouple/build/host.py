"""Check this machine's own toolchain (``--env host``) and name what it lacks."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from decouple.build import settings


def list_missing(tree: Path, *, cuda: bool) -> list[str]:
    """List what is missing for building ``tree`` here, one line each.

    Empty when nothing is.

    Upstream's own source needs its submodules in third_party (Debian's source package has none).
    """
    table = settings.read_facts().host
    missing = [f"{tool} is not on the PATH" for tool in table.tools if shutil.which(tool) is None]
    missing += [
        f"Python module {name} is not installed" for name in table.modules if importlib.util.find_spec(name) is None
    ]
    if tree.is_dir():
        missing += [f"{folder} is empty: this source has no submodules" for folder in find_empty_submodules(tree)]
    if cuda and not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
        missing.append("nvcc is not on the PATH")
    return missing


def find_empty_submodules(tree: Path) -> list[Path]:
    """Return the folders of the tree's third_party that are empty or not there.

    Upstream fills those from submodules.
    """
    folders = [tree / "third_party" / name for name in settings.read_facts().host.submodules]
    return [folder for folder in folders if not (folder.is_dir() and any(folder.iterdir()))]
