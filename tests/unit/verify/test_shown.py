"""torch.__config__.show() of the portable 2.6.0 beside the official wheel's: each line that differs has its reason.

The two texts are what the two torches printed, but for the paths of their compilers: the official wheel of PyPI, and
the core that `build 2.6 --env portable` made, alone. What `torch_cuda` says in place of the core's settings is read off
its build files.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.verify.full_parity import comparison, installation

SHOWN = Path(__file__).with_name("shown")
SECTION = "torch.__config__.show()"
CMAKE = find_project() / "third_device/torch_cuda/cmake"
HAS = {"CUDNN", "NCCL", "MAGMA", "CUSPARSELT"}  # of the official kernels


def with_cuda(core: str) -> dict[str, str]:
    """A core's settings with torch_cuda's in their place, as config.cpp puts them."""
    beside = re.search(r"set\(BESIDE ([A-Z ]+)\)", (CMAKE / "Options.cmake").read_text())
    assert beside
    ours = {f"USE_{name}": "ON" if name in HAS else "OFF" for name in beside[1].split()}
    ours |= {"USE_CUDA": "ON", "CUDA_VERSION": "12.4", "CUDNN_VERSION": "9.1.0"}
    assert all(f'\\"{name}\\"' in (CMAKE / "toolkit/cuda.cmake").read_text() for name in ("USE_CUDA", "CUDA_VERSION"))
    return {**installation.parse_settings((SHOWN / core).read_text()), **ours}


@pytest.mark.parametrize(
    ("core", "side"), [("core-2.6-portable.txt", "built"), ("official-2.6.0.txt", "half")], ids=["built", "half"]
)
def test_every_line_that_differs_is_explained_and_every_reason_is_met(core: str, side: str) -> None:
    official = installation.parse_settings((SHOWN / "official-2.6.0.txt").read_text())
    table = comparison.judge_sections([comparison.compare_names(SECTION, with_cuda(core), official)], side)
    (section,) = table.sections
    assert section.unexplained == ()
    assert [one for one in table.unused if one.startswith(r"torch\.__config__\.show")] == []
    assert not any(name in section.compared.missing for name in ("CUDA_VERSION", "CUDNN_VERSION", "USE_CUDA"))


def test_a_part_that_is_off_is_no_other_word_for_one_that_is_on() -> None:
    official = installation.parse_settings((SHOWN / "official-2.6.0.txt").read_text())
    off = {**with_cuda("core-2.6-portable.txt"), "USE_NCCL": "OFF", "USE_CUSPARSELT": "OFF"}
    (section,) = comparison.judge_sections([comparison.compare_names(SECTION, off, official)], "built").sections
    assert set(section.unexplained) == {"USE_NCCL", "USE_CUSPARSELT"}
    assert "USE_ROCM" not in [each.name for each in section.compared.different]  # 0 is OFF


def test_the_core_alone_says_that_it_has_no_cuda() -> None:
    alone = installation.parse_settings((SHOWN / "core-2.6-portable.txt").read_text())
    assert {alone[name] for name in ("USE_CUDA", "USE_CUDNN", "USE_NCCL", "USE_CUSPARSELT")} == {"OFF"}
    assert "CUDA_VERSION" not in alone and "CUDNN_VERSION" not in alone
