"""Where the caches are: never in the folder that a person happens to be in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from decouple.base import seal
from decouple.base.errors import UsageError
from decouple.base.paths import find_cache, find_project
from decouple.upstream import components, source_specifier
from decouple.upstream.unpublished_manifest import describe_local
from simcuda.build import find_cache_folder
from simcuda.errors import SimcudaError


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DECOUPLE_CACHE", "SIMCUDA_CACHE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("base", ["", ".", "cache", "../cache"])
def test_a_relative_xdg_folder_is_ignored(base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert (find_cache(), find_cache_folder()) == (tmp_path / ".cache/decouple", tmp_path / ".cache/simcuda")


def test_an_absolute_one_and_one_that_a_person_names_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert (find_cache(), find_cache_folder()) == (tmp_path / "x/decouple", tmp_path / "x/simcuda")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECOUPLE_CACHE", "named")
    monkeypatch.setenv("SIMCUDA_CACHE", "named")
    assert (find_cache(), find_cache_folder()) == (tmp_path / "named", tmp_path / "named")


@pytest.mark.parametrize("named", ["~", "~/cache", "~nobody/cache"])
def test_a_tilde_that_no_shell_replaced_is_no_folder(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in "~/cache" in quotes, or in the ENV of a container: a folder called ~ was made in the current one."""
    monkeypatch.setenv("DECOUPLE_CACHE", named)
    monkeypatch.setenv("SIMCUDA_CACHE", named)
    with pytest.raises(UsageError, match=f"DECOUPLE_CACHE is '{named}'"):
        find_cache()
    with pytest.raises(SimcudaError, match=f"SIMCUDA_CACHE is '{named}'"):
        find_cache_folder()


def test_a_home_that_there_is_not_is_told() -> None:
    """A shell leaves ~nosuch as it is. It was told as a fault of decouple's own."""
    readers: tuple[Callable[[Path], object], ...] = (
        lambda path: source_specifier.normalize_word(f"local:{path}"),
        lambda path: describe_local("mine-2.6", path, path),
        components.open_folder,
    )
    for read_path in readers:
        with pytest.raises(UsageError, match="~nosuch names no home folder") as caught:
            read_path(Path("~nosuch/pytorch"))
        assert caught.value.next_step == "name an absolute path"


def test_a_user_without_any_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number that no entry is for."""

    def find_none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", find_none)
    with pytest.raises(UsageError, match="no home folder"):
        find_cache()
    with pytest.raises(SimcudaError, match="no home folder"):
        find_cache_folder()


def test_a_project_that_is_named_from_the_current_folder_is_known_from_every_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("series", "patches"):
        (tmp_path / "checkout" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DECOUPLE_PROJECT", "checkout")
    assert find_project() == tmp_path / "checkout"


def test_a_relative_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "here")
    with pytest.raises(UsageError, match="HOME is 'here'"):
        find_cache()
    with pytest.raises(SimcudaError):
        find_cache_folder()


def test_a_key_in_the_current_folder_seals_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever filled that folder knows the key, and could have sealed what lies in a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "here")
    key = tmp_path / "here/.local/state/decouple/seal.key"
    key.parent.mkdir(parents=True)
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    assert seal.add_seal("name", b"data") is None


def test_a_user_without_a_home_is_told_in_one_line() -> None:
    """As in a container with a number that nobody has: Python raises RuntimeError."""
    code = "import os, pwd; os.environ.pop('HOME', 0)\ndef none(number): raise KeyError(number)\npwd.getpwuid = none\n"
    code += "from decouple.cli import main; main(['fetch', '2.6'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "set DECOUPLE_CACHE" in done.stderr and "fault of decouple's own" not in done.stderr
