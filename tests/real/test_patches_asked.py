"""The questions of the patches, asked of Debian's builds in the root, and of the official wheel for CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.flows.test_patches import PatchTrialRequest
from decouple.flows.test_patches import try_patches as ask
from tests.real.test_build import made_root
from tests.support.cuda_torch import library_variables

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize(("word", "kind", "asked"), [("monolith", "single", 2), ("cpu", "cpu", 1)])
def test_debians_builds_answer_as_upstream_with_cuda_and_without(word: str, kind: str, asked: int) -> None:
    made_root("core", "cuda", "monolith", "stock")
    found = ask(PatchTrialRequest(find_project(), "2.6", torch=word, device="simulated"))
    assert [one for one in found.answers if not one.ok] == []
    assert found.kind == kind and len(found.answers) == 11 * asked


@pytest.mark.tools("c++")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("devices", ["2", "1"])
def test_an_installed_torch_answers_as_its_kind_must(
    monkeypatch: pytest.MonkeyPatch, cuda_python: Path, devices: str
) -> None:
    for name, value in library_variables().items():
        monkeypatch.setenv(name, value)
    simulation = ("--devices", devices, "--memory", "8G", "--no-shadows")
    found = ask(
        PatchTrialRequest(find_project(), "2.6", torch=str(cuda_python), device="simulated", simulation=simulation)
    )
    assert found.answers and [one for one in found.answers if not one.ok] == []
