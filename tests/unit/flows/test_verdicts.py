"""A verdict is good when each of its parts is, and is recorded of the series that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from decouple.flows import verify
from decouple.flows.single_stage import SingleStageComparison
from decouple.flows.verdict import SeriesVerdict
from decouple.flows.verify import VerifyRequest, VerifyResult
from decouple.release import status
from decouple.verify.audit import ElfAudit, ElfFault
from decouple.verify.checks import CheckResult
from decouple.verify.kernels.compare import KernelComparison, KernelDifference
from decouple.verify.parity import Parity

SAME = KernelComparison("ours", "official", ("sm_90",), 1, 1, 1, 1, 1, 0, 0, 0, ())
OTHER = structs.replace(SAME, found=(KernelDifference("code", "sm_90", "a.cu", "f", "2 bytes in both"),))
GOOD = VerifyResult(
    (ElfAudit("core without CUDA", 1, 1, ()),),
    (CheckResult("import", True, "there"),),
    (Parity("API", 1, (), ()),),
    SAME,
)


@pytest.mark.parametrize(
    "changed",
    [
        {"audits": (*GOOD.audits, ElfAudit("pair", 1, 1, (ElfFault("libtorch.so", "needs a CUDA library", "x"),)))},
        {"checks": (*GOOD.checks, CheckResult("pip check", False, "no"))},
        {"parity": (*GOOD.parity, Parity("symbols", 1, ("f",), ()))},
        {"kernels": OTHER},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_wheels_are_verified_when_every_part_is(changed: dict[str, Any]) -> None:
    assert GOOD.ok and structs.replace(GOOD, kernels=None).ok
    assert not structs.replace(GOOD, **changed).ok


def test_another_vendors_objects_are_as_upstreams_when_code_and_registrations_are() -> None:
    assert SingleStageComparison(SAME, GOOD.parity).ok
    assert not SingleStageComparison(OTHER, GOOD.parity).ok
    assert not SingleStageComparison(SAME, (Parity("operators on CUDA", 1, ("aten::add",), ()),)).ok


@pytest.mark.parametrize("part", ["faults", "sources", "couplings"])
def test_a_carried_series_is_clean_when_no_check_found_anything(part: str) -> None:
    assert SeriesVerdict(unasked=("this tree has not that submodule",)).is_clean
    assert not structs.replace(SeriesVerdict(), **{part: ("one",)}).is_clean


def test_what_is_recorded_of_wheels_is_of_their_series(tmp_path: Path) -> None:
    """Not of the checkout's of that day, nor of the last build of another kind."""
    path, wheel = status.locate_status(tmp_path, "2.6"), tmp_path / "torch_cuda.whl"
    built = status.StageSection("other.whl", 1, 1, 1, 1.0, series="another build's")
    status.update_status(path, series=status.SeriesSection(2, "the checkout's"), stage2=built)
    verify._record_result(VerifyRequest(tmp_path, "2.6"), wheel, GOOD, "the wheels'")
    marks = status.read_status(path).recorded
    assert {marks[key].series for key in ("verify", "kernels/built")} == {"the wheels'"}
