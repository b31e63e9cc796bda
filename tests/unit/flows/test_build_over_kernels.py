"""Stage 2 over kernels that somebody else compiled: what cannot be is one line, before anything is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.errors import UsageError
from decouple.cli.wheel import KERNELS
from decouple.flows.build import build_wheels
from decouple.flows.build_request import BuildRequest


def refused(tmp_path: Path, **request: object) -> str:
    with pytest.raises(UsageError) as told:
        build_wheels(BuildRequest(tmp_path, "2.6", stage=2, **request))  # type: ignore[arg-type]
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("socket.socket", None)


def test_the_patched_core_must_be_there_first(tmp_path: Path) -> None:
    said = refused(tmp_path, env="portable", core="built", kernels="official")
    assert "no core wheel of 2.6 for --core built" in said
    assert not (tmp_path / "cache").exists()


def test_the_official_half_goes_with_its_own_kernels_or_with_compiled_ones(tmp_path: Path) -> None:
    assert "that half goes with its own kernels" in refused(tmp_path, core="official", kernels="monolith")


def test_kernels_are_a_word_or_a_folder(tmp_path: Path) -> None:
    assert BuildRequest(tmp_path, "2.6", kernels="monolith").kind == "installed"
    assert BuildRequest(tmp_path, "2.6", kernels="monolith").against == "stock"
    assert BuildRequest(tmp_path, "2.6", kernels="official").against == "official"
    assert BuildRequest(tmp_path, "2.6").against == "built"


def test_wheels_of_each_kind_are_made_in_a_folder_of_their_own(tmp_path: Path) -> None:
    """So none is taken for another: objects and stamps lie apart, and the version in the wheel's name says which."""
    ways = [{}, {"kernels": "official"}, {"kernels": "official", "core": "built"}, {"kernels": "monolith"}]
    folders = [BuildRequest(tmp_path, "2.6", **way).places.state for way in ways]  # type: ignore[arg-type]
    assert len(set(folders)) == len(ways)


def test_explain_says_of_each_kind_whose_it_is(tmp_path: Path) -> None:
    kinds = {BuildRequest(tmp_path, "2.6", kernels=word).kind for word in ("official", "monolith", "/opt/torch")}
    assert kinds == set(KERNELS) and "upstream's own wheel" not in KERNELS["installed"]
