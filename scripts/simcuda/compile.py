"""Run the C++ compiler, one object per source, as many at a time as processors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from simcuda.errors import SimcudaError, explain_os_error

#: A C++ library of its own, for whatever the program has, and none of it for the program: two unwinders that meet in
#: one exception end the process.
OWN_RUNTIME = ("-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL")
FIRST_ERROR = re.compile(r"\berror: |undefined reference|cannot find |multiple definition")
"""What the line of an error has, and no path, note or warning: the compilers' words and the linkers'."""


def find_compiler() -> list[str]:
    """Return ``CXX`` or ``g++``, behind ccache if any. Raises SimcudaError for none."""
    wanted = os.environ.get("CXX") or "g++"
    path = shutil.which(wanted)
    if path is None:
        problem = f"no C++ compiler {wanted} (CXX)" if wanted != "g++" else "no C++ compiler"
        raise SimcudaError(problem, next_step="apt-get install g++, or set CXX to the one that is here")
    ccache = shutil.which("ccache")
    return [ccache, path] if ccache else [path]


def run_in_english(command: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a compiler, or a tool beside it, in English with ``stdin`` as its input.

    Raises SimcudaError where it is not there.
    """
    variables = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
    with explain_os_error(command[0], "apt-get install g++ binutils"):
        return subprocess.run(command, input=stdin, capture_output=True, text=True, errors="replace", env=variables)


def find_first_error(output: str) -> str:
    """Return the line of the first error of a compiler or linker, else the last one."""
    lines = output.strip().splitlines() or ["it says nothing"]
    return next((line.strip() for line in lines if FIRST_ERROR.search(line)), lines[-1])


def run_compiler(command: Sequence[str]) -> None:
    """Run one compiler command. Raises SimcudaError with its first error."""
    done = run_in_english(command)
    if done.returncode:
        raise SimcudaError(
            find_first_error(done.stderr),
            next_step=f"set CXX to another compiler, or run this one by hand: {' '.join(command)}",
        )


def compile_objects(sources: Sequence[Path], folder: Path, flags: Sequence[str]) -> list[Path]:
    """Make an object file in ``folder`` for each source."""
    folder.mkdir(parents=True, exist_ok=True)
    objects = {source: folder / f"{source.stem}.o" for source in sources}
    base = [*find_compiler(), "-std=c++17", "-fPIC", "-c", *flags]
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        list(pool.map(run_compiler, ([*base, str(source), "-o", str(out)] for source, out in objects.items())))
    return list(objects.values())


def link_shared_library(name: str, parts: Sequence[Path], out: Path, flags: Sequence[str]) -> None:
    """Link a shared library of that SONAME."""
    command = [find_compiler()[-1], "-shared", "-o", str(out), *map(str, parts), f"-Wl,-soname,{name}", "-Wl,-z,now"]
    run_compiler([*command, *flags])
