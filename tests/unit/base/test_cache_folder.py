"""Where the caches are: never in the folder that a person happens to be in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.base.paths import find_cache
from simcuda.build import find_cache_folder
from simcuda.errors import SimcudaError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DECOUPLE_CACHE", "SIMCUDA_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("base", ["", ".", "cache", "../cache"])
def test_a_relative_xdg_folder_is_ignored(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert (find_cache(), find_cache_folder()) == (tmp_path / ".cache/decouple", tmp_path / ".cache/simcuda")


def test_an_absolute_one_and_one_that_a_person_names_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert (find_cache(), find_cache_folder()) == (tmp_path / "x/decouple", tmp_path / "x/simcuda")
    monkeypatch.setenv("DECOUPLE_CACHE", "named")
    monkeypatch.setenv("SIMCUDA_CACHE", "named")
    assert (find_cache(), find_cache_folder()) == (Path("named"), Path("named"))


def test_a_relative_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "here")
    with pytest.raises(UsageError, match="HOME is 'here'"):
        find_cache()
    with pytest.raises(SimcudaError):
        find_cache_folder()


def test_a_user_without_a_home_is_told_in_one_line() -> None:
    """As in a container with a number that nobody has: Python raises RuntimeError."""
    code = "import os, pwd; os.environ.pop('HOME', 0)\ndef none(number): raise KeyError(number)\npwd.getpwuid = none\n"
    code += "from decouple.cli import main; main(['fetch', '2.6'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "set DECOUPLE_CACHE" in done.stderr and "fault of decouple's own" not in done.stderr
