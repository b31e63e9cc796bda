"""Runs the C++ compiler; one object per source, as many at a time as there are processors."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from simcuda.errors import SimcudaError


def compiler() -> list[str]:
    """``c++``, behind ccache where there is one."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        raise SimcudaError("there is no C++ compiler", next_step="install g++, or set CXX")
    ccache = shutil.which("ccache")
    return [ccache, found] if ccache else [found]


def run(command: Sequence[str]) -> None:
    """Run one compiler command; its first error is the message."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        first = next((line for line in lines if "error" in line or "undefined" in line), done.stderr.strip()[-300:])
        raise SimcudaError(
            f"{' '.join(command[:3])} … failed: {first}", next_step=f"run it by hand: {' '.join(command)}"
        )


def objects(sources: Sequence[Path], folder: Path, flags: Sequence[str]) -> list[Path]:
    """An object file in ``folder`` for each source."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {source: folder / f"{source.stem}.o" for source in sources}
    base = [*compiler(), "-std=c++17", "-fPIC", "-c", *flags]
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        list(pool.map(run, ([*base, str(source), "-o", str(out)] for source, out in made.items())))
    return list(made.values())


def shared(name: str, parts: Sequence[Path], out: Path, flags: Sequence[str]) -> None:
    """A shared library of that SONAME."""
    command = [compiler()[-1], "-shared", "-o", str(out), *map(str, parts), f"-Wl,-soname,{name}", "-Wl,-z,now"]
    run([*command, *flags])
