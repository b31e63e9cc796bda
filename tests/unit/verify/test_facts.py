"""What a user reads off torch is compared with what the official build says, not for being there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from decouple.base.errors import DecoupleError
from decouple.base.paths import find_project
from decouple.upstream.manifests import load_release
from decouple.verify import facts
from decouple.verify.checks import CheckResult, check_values

TOOLCHAIN = load_release(find_project(), "2.6").toolchain
RIGHT: dict[str, Any] = {
    "version.cuda": "12.4",
    "_C._cuda_getCompiledVersion()": 12040,
    "backends.cuda.is_built()": True,
    "torch.cuda._CUDAC": True,
    "__config__.show() USE_CUDA": "ON",
    "__config__.show() CUDA_VERSION": "12.4",
    "backends.cudnn.version()": 90100,
    "cuda.nccl.version()": [2, 21, 5],
    "distributed.is_nccl_available()": True,
    "_C._cuda_getArchFlags().split()": ["sm_90"],
}


def checked(kind: str = "host", installed: dict[str, str] | None = None, **seen: Any) -> list[CheckResult]:
    """The failed checks of a build for 9.0 that says ``RIGHT`` but for ``seen``."""
    wanted = facts.list_expected_facts(TOOLCHAIN, ["9.0"], kind, installed or {})
    return [one for one in check_values({**RIGHT, **seen}, wanted) if not one.passed]


def test_a_build_that_says_what_the_official_wheel_says_is_good() -> None:
    assert checked() == []


def test_a_quoted_architecture_is_found() -> None:
    """``CUDA_ARCH_FLAGS`` was quoted twice once: every GPU failed, and the check was content to see a value."""
    (fault,) = checked(**{"_C._cuda_getArchFlags().split()": ['"sm_90"']})
    assert fault.observed.startswith("""['"sm_90"'], expected ['sm_90']""")


@pytest.mark.parametrize(
    ("asks", "wrong"),
    [
        ("version.cuda", "12.6"),
        ("version.cuda", None),
        ("_C._cuda_getCompiledVersion()", 12060),
        ("backends.cuda.is_built()", 1),
        ("__config__.show() USE_CUDA", "0"),
        ("__config__.show() CUDA_VERSION", None),
        ("backends.cudnn.version()", 90200),
        ("backends.cudnn.version()", "90100"),
        ("cuda.nccl.version()", [2, 22, 3]),
        ("distributed.is_nccl_available()", False),
        ("_C._cuda_getArchFlags().split()", []),
        ("_C._cuda_getArchFlags().split()", "sm_90"),
        ("_C._cuda_getArchFlags().split()", ["sm_90", "compute_90"]),
    ],
)
def test_each_value_that_is_another_is_found(asks: str, wrong: Any) -> None:
    (fault,) = checked(**{asks: wrong})
    assert repr(wrong) in fault.observed and "expected" in fault.observed


def test_what_an_unmodified_core_cannot_give_is_expected_to_be_missing_there() -> None:
    wanted = {one.asks: one.value for one in facts.list_expected_facts(TOOLCHAIN, ["9.0"], "host", {}, "stock")}
    assert wanted == {**RIGHT, "distributed.is_nccl_available()": False}


def test_a_value_that_was_not_asked_for_is_not_taken_as_right() -> None:
    wanted = facts.list_expected_facts(TOOLCHAIN, ["9.0"], "host", {})
    assert not any(one.passed for one in check_values({}, wanted))


def test_debians_root_has_its_own_nccl_and_must_say_exactly_that() -> None:
    assert len(checked("rootfs", {"libnccl-dev": "2.22.3-1-1"})) == 1  # 2.21.5 is the official wheel's
    assert checked("rootfs", {"libnccl-dev": "2.22.3-1-1"}, **{"cuda.nccl.version()": [2, 22, 3]}) == []


def test_architectures_are_said_as_torch_says_them() -> None:
    assert facts.list_arch_flags(["8.0", "9.0a", "12.0+PTX"]) == ["compute_120", "sm_120", "sm_80", "sm_90a"]
    with pytest.raises(DecoupleError, match="sm_90"):
        facts.list_arch_flags(["sm_90"])


def test_a_release_whose_official_versions_are_not_known_is_told() -> None:
    with pytest.raises(DecoupleError, match="cudnn"):
        facts.list_expected_facts(replace(TOOLCHAIN, libraries=()), ["9.0"], "host", {})
