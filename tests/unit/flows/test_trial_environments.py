"""Environments that wheels are tried in are made anew, and a kill leaves none that is taken for a whole one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from decouple.build.environment import HostEnvironment, Places
from decouple.flows import parity, verify_official
from decouple.verify import venvs

HERE = Path(sys.executable)


def unpack(folder: Path, wheel: Path) -> None:
    """Wheels on what another Python has."""
    parity.unpack_wheels(HERE, folder / "whole", [wheel])


def prepare(folder: Path, wheel: Path) -> None:
    """The CPU half of the official wheel."""
    places = replace(Places.of_release(folder, "2.6", folder), verify=folder)
    verify_official._prepare_half(places, HERE, wheel)


def install(folder: Path, wheel: Path) -> None:
    """Where the wheels were built."""
    environment = HostEnvironment(Places.of_release(folder, "2.6", folder))
    venvs.install_wheels(venvs.Workplace(environment, folder, str(folder), folder / "log"), "both", [wheel])


@pytest.mark.parametrize(
    ("make", "mark"), [(unpack, "whole.content"), (prepare, "half.content"), (install, "both/content")]
)
def test_a_kill_while_the_old_one_is_deleted_leaves_no_mark(
    make: Callable[[Path, Path], None], mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries the old wheels again would have taken what is left of it."""

    def kill(folder: Path) -> None:
        raise KeyboardInterrupt

    (tmp_path / "wheel.whl").write_bytes(b"new")
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).write_text("of the old wheels")
    for module in (parity, verify_official, venvs):
        monkeypatch.setattr(module, "remove_tree", kill)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, tmp_path / "wheel.whl")
    assert not (tmp_path / mark).exists()
