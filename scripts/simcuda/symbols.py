"""Dynamic symbols of a library, as ``nm`` prints them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from simcuda.errors import SimcudaError


def defined(path: Path, *, dynamic: bool = True) -> frozenset[str]:
    """Functions that the library (or, with ``dynamic=False``, the object file) defines, without versions."""
    command = ["nm", "--defined-only", *(["-D"] if dynamic else []), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SimcudaError(
            f"nm cannot read {path}: {done.stderr.strip()}", next_step="install binutils, or fetch it anew"
        )
    rows = (line.split() for line in done.stdout.splitlines())
    names = (row[2].partition("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi")
    return frozenset(names)
