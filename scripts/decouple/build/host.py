"""Check this machine's own toolchain (``--env host``) and name what it lacks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from decouple.base.interpreter import run_python
from decouple.build import settings
from decouple.build.environment import keep_host_variables

_FIND = "import importlib.util, sys; print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n) is None))"


def list_missing(tree: Path, *, cuda: bool) -> list[str]:
    """List what is missing for building ``tree`` here, one line each.

    Empty when nothing is.

    Upstream's own source needs its submodules in third_party (Debian's source package has none).
    """
    table = settings.read_facts().host
    missing = [f"{tool} is not on the PATH" for tool in table.tools if shutil.which(tool) is None]
    missing += _list_missing_modules(table.modules)
    if tree.is_dir():
        missing += [f"{folder} is empty: this source has no submodules" for folder in find_empty_submodules(tree)]
    if cuda and not (os.environ.get("CUDACXX") or shutil.which("nvcc")):
        missing.append("nvcc is not on the PATH")
    return missing


def _list_missing_modules(names: Sequence[str]) -> list[str]:
    """Ask the ``python3`` that builds, which need not be the one that runs this."""
    python = shutil.which("python3")
    if python is None:
        return ["python3 is not on the PATH"]
    done = run_python([python, "-c", _FIND, *names], keep_host_variables())
    if done.returncode:
        return [f"{python} does not run"]
    return [f"Python module {name} is not installed for {python}" for name in done.stdout.split()]


def find_empty_submodules(tree: Path) -> list[Path]:
    """Return the folders of the tree's third_party that are empty or not there.

    Upstream fills those from submodules.
    """
    folders = [tree / "third_party" / name for name in settings.read_facts().host.submodules]
    return [folder for folder in folders if not (folder.is_dir() and any(folder.iterdir()))]
