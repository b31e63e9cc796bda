"""A finished wheel's name against what its libraries ask of a system."""

from __future__ import annotations

import pytest

from decouple.base.errors import DecoupleError
from decouple.build.wheel_finishing import check_platform

NAME = "torch_cuda-2.6.0+cu124-cp313-cp313-manylinux_2_31_x86_64.whl"


def said(platform: str) -> str:
    """As auditwheel words it; the tag before it is of the libraries that others bring."""
    return f'tag: "linux_x86_64". This constrains the platform tag to "{platform}". In order to'


@pytest.mark.parametrize("platform", ["manylinux_2_5_x86_64", "manylinux_2_17_x86_64", "manylinux_2_31_x86_64"])
def test_a_tag_that_is_kept(platform: str) -> None:
    check_platform(NAME, said(platform))


def test_libraries_of_a_newer_system() -> None:
    with pytest.raises(DecoupleError, match=r"manylinux_2_31.*_2_34"):
        check_platform(NAME, said("manylinux_2_34_x86_64"))


def test_libraries_that_no_policy_has() -> None:
    with pytest.raises(DecoupleError, match="no manylinux"):
        check_platform(NAME, said("linux_x86_64"))


def test_of_a_compressed_tag_the_oldest_system_counts() -> None:
    """An installer takes the wheel where one of its tags fits."""
    both = NAME.replace("manylinux_2_31_x86_64", "manylinux_2_31_x86_64.manylinux_2_17_x86_64")
    check_platform(both, said("manylinux_2_17_x86_64"))
    with pytest.raises(DecoupleError, match="manylinux_2_28"):
        check_platform(both, said("manylinux_2_28_x86_64"))


def test_a_tag_from_before_the_numbers() -> None:
    """``manylinux2014`` is another name of ``manylinux_2_17`` (PEP 600)."""
    old = NAME.replace("manylinux_2_31_x86_64", "manylinux2014_x86_64")
    check_platform(old, said("manylinux_2_17_x86_64"))
    with pytest.raises(DecoupleError, match="manylinux_2_28"):
        check_platform(old, said("manylinux_2_28_x86_64"))
