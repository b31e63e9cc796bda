"""What ``parity`` cannot compare it says before it downloads the official wheel (731 MiB)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.base.files import compute_sha256
from decouple.base.paths import find_project
from decouple.build import inputs
from decouple.flows import parity as flow
from decouple.flows.build_request import BuildRequest
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


@pytest.mark.parametrize(
    ("kernels", "more"), [("compiled", ""), ("official", " --stage 2 --core built --kernels official")]
)
def test_of_portable_wheels_those_for_the_official_wheels_python_are_compared(
    checkout: Path, kernels: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several builds the one that was compiled for it is taken, of the release's own CUDA."""
    asked = ParityRequest(checkout, "2.6", "portable", kernels=kernels)
    with pytest.raises(UsageError, match=r"no wheels of --env portable for Python 3\.13") as caught:
        compare_parity(asked)
    assert f"decouple build 2.6 --env portable --python 3.13{more} " in str(caught.value.next_step)
    built = BuildRequest(checkout, "2.6", "portable", python="3.13", kernels=kernels, core="built").places
    places = built if kernels == "official" else built.with_cuda("portable", "12.4")
    places.dist.mkdir(parents=True)
    wheels = [places.dist / f"torch{stage}-2.6.0-cp313-cp313-linux_x86_64.whl" for stage in (1, 2)]
    for stage, folder in ((1, places.core_state), (2, places.state)):
        wheels[stage - 1].touch()
        stamp = inputs.Stamp("0" * 64, wheels[stage - 1].name, compute_sha256(wheels[stage - 1]), 1.0, 1)
        inputs.write_stamp(folder / f"stage{stage}.json", stamp)
    found = []
    monkeypatch.setattr(flow, "warn_of_older_wheels", lambda *given: found.extend(given[2]) or sys.exit())
    with pytest.raises(SystemExit):
        compare_parity(asked)
    assert found == wheels
