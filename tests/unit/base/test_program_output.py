"""What is read of a program's words is English in every locale: one place sets that, and each reader uses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base import interpreter, process, program_output
from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from simcuda import symbols
from simcuda.errors import SimcudaError

ROOT = find_project()
SPEAKS = """#!/bin/sh
case "$LC_ALL:$LANGUAGE" in C.UTF-8:) echo "x.cpp:1:1: error: bad" ;; *) echo "x.cpp:1:1: Fehler: schlecht" ;; esac >&2
exit 1
"""


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user whose programs speak German; one of them, which fails, by many names that are first in PATH."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    for name in ("cc", "nm", "readelf"):
        (tmp_path / name).write_text(SPEAKS)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


READERS: dict[str, Callable[[Path], object]] = {
    "a short command": lambda folder: pytest.fail(program_output.run_program(["cc"]).stderr),
    "somebody's Python": lambda folder: pytest.fail(interpreter.run_python([str(folder / "cc")]).stderr),
    "a long command": lambda folder: process.run_logged(["cc"], log=folder / "log", what="compile"),
    "nm": lambda folder: symbols.read_defined_functions(folder / "x.so"),
    "readelf": lambda folder: symbols.read_needed_libraries(folder / "x.so"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_program_speaks_english_to_who_reads_it(german: Path, reader: str) -> None:
    with pytest.raises((DecoupleError, SimcudaError, pytest.fail.Exception), match="error: bad"):
        READERS[reader](german)


def reads(path: Path) -> list[str]:
    """Each start of a program on this machine whose output is read, and not by what speaks English."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not re.fullmatch(
            r"subprocess\.(run|Popen|check_output)", ast.unparse(node.func)
        ):
            continue
        named = {word.arg: ast.unparse(word.value) for word in node.keywords}
        piped = any("PIPE" in named.get(stream, "") for stream in ("stdout", "stderr"))
        read = "check_output" in ast.unparse(node.func) or "capture_output" in named or piped
        if read and "make_english_variables(" not in named.get("env", ""):
            found.append(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{node.lineno}")
    return found


OWN = {
    "scripts/decouple/base/git.py": "sets LC_ALL for every git",
    "scripts/decouple/build/inside/environment_facts.py": "runs in an environment, which gives it its exact variables",
    "scripts/simcuda/compile.py": "the one place of that package",
    "scripts/simcuda/torchbuild.py": "a Python, which says JSON",
    "scripts/simcuda/vendor.py": "pip, which has one language",
    "third_device/torch_cuda/torch_cuda_build/hipify.py": "a Python, whose last line is shown",
    "third_device/torch_cuda/torch_cuda_build/slice_stubs.py": "names of symbols",
    "third_device/tools/wrapped_cmake/features.py": "a compiler, whose refusal is shown",
    "third_device/tools/wrapped_cmake/ninja.py": "gets the variables of `features.build_environment`",
}


def test_each_reader_of_words_is_one_of_these() -> None:
    folders = ("scripts/decouple", "scripts/simcuda", "third_device/tools", "third_device/torch_cuda")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [place for path in files for place in reads(path)]
    assert [place for place in found if place.partition(":")[0] not in OWN] == []
    assert {place.partition(":")[0] for place in found} == set(OWN), "one that is gone"


def test_a_new_reader_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import subprocess\nsubprocess.run(['cc'], capture_output=True)\n")
    assert reads(tmp_path / "x.py") == [f"{tmp_path}/x.py:2"]
