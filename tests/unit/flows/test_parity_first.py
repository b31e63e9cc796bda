"""What ``parity`` cannot compare it says before it downloads the official wheel (731 MiB)."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.base.paths import find_project
from decouple.flows import parity as flow
from decouple.flows.parity import ParityRequest, compare_parity
from decouple.upstream.download import Downloader


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing was built, where a download is a fault."""

    def none(*_: object) -> None:
        raise AssertionError("something was downloaded")

    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6.toml").write_bytes((find_project() / "series/2.6.toml").read_bytes())
    monkeypatch.setenv("DECOUPLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Downloader, "fetch_file", none)
    monkeypatch.setattr(flow.shutil, "which", lambda name: f"/usr/bin/{name}" if "python3" in name else None)
    return tmp_path


def test_nothing_built(checkout: Path) -> None:
    with pytest.raises(UsageError, match="not both wheels are built"):
        compare_parity(ParityRequest(checkout, "2.6"))


def test_a_python_that_is_not_there(checkout: Path) -> None:
    with pytest.raises(UsageError, match="no Python there"):
        compare_parity(ParityRequest(checkout, "2.6", python="venv/bin/nothing"))
