"""Small real libraries, compiled with the system's C compiler, and strace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.tools import require_tool

Compile = Callable[..., Path]


@pytest.fixture
def compile_library(tmp_path: Path) -> Compile:
    """``compile_library("libx.so", "int f(void) {...}", needs=[...])`` in a folder of its own per ``side``."""
    require_tool("cc")

    def make(name: str, code: str, needs: Sequence[Path] = (), side: str = "core", flags: Sequence[str] = ()) -> Path:
        folder = tmp_path / side
        folder.mkdir(exist_ok=True)
        source = folder / f"{name}.c"
        source.write_text(code)
        argv = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", "-o", str(folder / name)]
        subprocess.run([*argv, *flags, str(source), *map(str, needs)], check=True)
        source.unlink()
        return folder / name

    return make


@pytest.fixture
def strace() -> None:
    """strace, where a process may be traced."""
    require_tool("strace")
    done = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"strace may trace nothing here: {done.stderr.strip()}")
