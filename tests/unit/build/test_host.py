"""What this machine lacks for `--env host` is what its own commands lack, not what decouple's Python has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from decouple.build import host as own_toolchain
from decouple.build import settings
from decouple.build.environment import HostEnvironment, read_output

MODULES = settings.read_facts().host.modules


def put_python(folder: Path, monkeypatch: pytest.MonkeyPatch, modules: tuple[str, ...]) -> Path:
    """A `python3`, first on the PATH, that finds these modules beside its standard library."""
    for name in modules:
        (folder / "site" / name).mkdir(parents=True)
        (folder / "site" / name / "__init__.py").touch()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}/site:$PYTHONPATH" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return python


def list_modules() -> list[str]:
    return [line for line in own_toolchain.list_missing(Path("/no tree"), cuda=False) if "module" in line]


def test_modules_are_those_of_the_python_that_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pipx gives decouple a Python of its own: what that lacked was refused, and what it had was missed hours later."""
    (tmp_path / "whole").mkdir()
    put_python(tmp_path / "whole", monkeypatch, MODULES)
    assert list_modules() == []
    (tmp_path / "poor").mkdir()
    python = put_python(tmp_path / "poor", monkeypatch, tuple(name for name in MODULES if name != "yaml"))
    assert list_modules() == [f"Python module yaml is not installed for {python}"]


def test_a_variable_that_no_build_is_given_finds_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine/yaml").mkdir(parents=True)
    (tmp_path / "mine/yaml/__init__.py").touch()
    python = put_python(tmp_path, monkeypatch, tuple(name for name in MODULES if name != "yaml"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    assert list_modules() == [f"Python module yaml is not installed for {python}"]


def test_temporary_files_go_where_the_user_has_room(
    host: HostEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvcc filled /tmp."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert read_output(host, ["sh", "-c", "echo $TMPDIR"], {}) == str(tmp_path)


def test_a_machine_without_python_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "python3 is not on the PATH" in own_toolchain.list_missing(tmp_path, cuda=False)
