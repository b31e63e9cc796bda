"""What the symbol tables of a library say: what it defines, and what it needs."""

from __future__ import annotations

import re
from pathlib import Path

from simcuda import compile
from simcuda.errors import SimcudaError


def read_defined_functions(path: Path, *, dynamic: bool = True) -> frozenset[str]:
    """Return the functions that the library defines, without versions.

    With ``dynamic=False`` it is an object file.
    """
    command = ["nm", "--defined-only", *(["-D"] if dynamic else []), str(path)]
    done = compile.run_in_english(command)
    if done.returncode:
        raise SimcudaError(
            f"nm cannot read {path}: {done.stderr.strip()}", next_step="install binutils, or fetch it anew"
        )
    rows = (line.split() for line in done.stdout.splitlines())
    names = (row[2].partition("@")[0] for row in rows if len(row) == 3 and row[1] in "TWi")
    return frozenset(names)


def read_imported_functions(path: Path) -> frozenset[str]:
    """Return the names that the library takes from others, without versions."""
    done = compile.run_in_english(["nm", "--undefined-only", "-D", str(path)])
    if done.returncode:
        raise SimcudaError(
            f"nm cannot read {path}: {done.stderr.strip()}", next_step="install binutils, or fetch it anew"
        )
    return frozenset(line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.strip())


def read_needed_libraries(path: Path) -> tuple[str, ...]:
    """Return the SONAMEs that the library names as needed, as ``readelf`` prints them."""
    done = compile.run_in_english(["readelf", "-d", "-W", str(path)])
    if done.returncode:
        raise SimcudaError(
            f"readelf cannot read {path}: {done.stderr.strip()}", next_step="install binutils, or fetch it anew"
        )
    return tuple(re.findall(r"\(NEEDED\).*\[(.+)\]", done.stdout))
