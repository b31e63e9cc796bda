"""Pythons that have a torch in name only."""

from __future__ import annotations

import sys
from pathlib import Path


def make_python(folder: Path, torch: str) -> Path:
    """A Python that has a torch which says that it is this version, and is nothing else."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch/__init__.py").write_text(f"print('a notice')\n__version__ = {torch!r}\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python
