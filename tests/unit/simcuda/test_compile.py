"""What is said when the compiler fails: its first error, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simcuda import cli, compile, declarations, symbols
from simcuda.errors import SimcudaError


def pretend(folder: Path, name: str, script: str) -> Path:
    """A program of that name, by a shell script."""
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.tools("c++")
def test_the_first_error_is_told_and_no_line_before_it(tmp_path: Path) -> None:
    """A path, a warning and a note have the word too; the undeclared name that comes second follows from the first."""
    folder = tmp_path / "errors"
    folder.mkdir()
    (folder / "error.h").write_text("#warning error ahead\n")
    source = folder / "broken.cpp"
    source.write_text('#include "error.h"\nint one() { return first_name; }\nint two() { return second_name; }\n')
    with pytest.raises(SimcudaError) as failed:
        compile.compile_objects([source], tmp_path / "work", [])
    assert "broken.cpp:2:" in failed.value.what and "first_name" in failed.value.what
    assert "error ahead" not in failed.value.what and "second_name" not in failed.value.what
    assert "CXX" in failed.value.next_step and "SIMCUDA_WHEELS" not in failed.value.next_step


@pytest.mark.tools("c++")
def test_the_linkers_first_error_is_told(tmp_path: Path) -> None:
    source = tmp_path / "absent.cpp"
    source.write_text('extern "C" int absent(); int one() { return absent(); }\n')
    parts = compile.compile_objects([source], tmp_path / "work", [])
    with pytest.raises(SimcudaError, match=r"undefined .*absent"):
        compile.link_shared_library("libone.so", parts, tmp_path / "libone.so", ["-Wl,--no-undefined"])


def test_the_compiler_speaks_english_whatever_the_user_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    speaks = 'case $LC_ALL in C.UTF-8) echo "x.cpp:1:1: error: bad" ;; *) echo "x.cpp:1:1: Fehler: schlecht" ;; esac'
    program = pretend(tmp_path, "compiler", f"({speaks}) >&2; echo 'and so on' >&2; exit 1")
    with pytest.raises(SimcudaError, match=r"x\.cpp:1:1: error: bad;"):
        compile.run_compiler([str(program)])


def test_headers_are_read_by_the_compiler_that_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(pretend(tmp_path, "my-compiler", "echo 'int my_own();'")))
    assert declarations.preprocess_headers(["any.h"], []) == "int my_own();\n"


def test_without_a_compiler_the_hint_installs_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for asked in (
        lambda: compile.compile_objects([], tmp_path, []),
        lambda: declarations.preprocess_headers(["any.h"], []),
    ):
        with pytest.raises(SimcudaError, match=r"install g\+\+"):
            asked()


@pytest.mark.parametrize(
    ("ask", "tool"), [(symbols.read_defined_functions, "nm"), (symbols.read_needed_libraries, "readelf")]
)
def test_without_binutils_the_hint_installs_them(
    ask: Callable[[Path], object], tool: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bare Debian has neither them nor a compiler, and torch's libraries are read first: it was a traceback."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SimcudaError, match=f"^{tool}: .*install .*binutils"):
        ask(tmp_path / "libc10.so")


def test_what_to_do_is_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        raise SimcudaError("a.cpp:1: error: x", next_step="set CXX")

    monkeypatch.setattr("simcuda.build.make_stand_ins", fail)
    assert cli.main(["build", "--no-torch"]) == 1
    assert capsys.readouterr().err.splitlines() == ["simcuda: a.cpp:1: error: x", "  next: set CXX"]
