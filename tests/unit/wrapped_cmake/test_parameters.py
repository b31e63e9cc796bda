"""Parameters are read as upstream reads them, and a wrong one stops the build before it starts."""

from __future__ import annotations

import pytest
from wrapped_cmake import Settings, WrappedCMakeError, help_text
from wrapped_cmake.parameters import PARAMETERS


def test_every_use_build_and_cmake_variable_goes_to_cmake() -> None:
    made = Settings({"USE_NEVER_HEARD_OF": "1", "BUILD_X": "0", "CMAKE_Y": "z", "HOME": "/root"}).definitions()
    assert made == {"USE_NEVER_HEARD_OF": "1", "BUILD_X": "0", "CMAKE_Y": "z", "CMAKE_BUILD_TYPE": "Release"}


def test_names_that_upstream_translates() -> None:
    made = Settings({"_GLIBCXX_USE_CXX11_ABI": "1", "CUDACXX": "/usr/bin/nvcc"}).definitions()
    assert made["GLIBCXX_USE_CXX11_ABI"] == "1"
    assert made["CMAKE_CUDA_COMPILER"] == "/usr/bin/nvcc"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "Release"),
        ({"DEBUG": "1"}, "Debug"),
        ({"REL_WITH_DEB_INFO": "on"}, "RelWithDebInfo"),
        ({"DEBUG": "1", "CMAKE_BUILD_TYPE": "MinSizeRel"}, "MinSizeRel"),
    ],
)
def test_build_type(environ: dict[str, str], expected: str) -> None:
    assert Settings(environ).build_type() == expected


@pytest.mark.parametrize("separator", [" ", ";", ",", "; "])
def test_arch_list_is_split_as_upstream_splits_it(separator: str) -> None:
    assert Settings({"TORCH_CUDA_ARCH_LIST": f"8.0{separator}9.0a+PTX"}).archs() == ["8.0", "9.0a+PTX"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TORCH_CUDA_ARCH_LIST", "8.0;ninety", "'ninety' is no CUDA architecture"),
        ("MAX_JOBS", "many", "MAX_JOBS=many: not a positive number"),
        ("MAX_JOBS", "0", "MAX_JOBS=0: not a positive number"),
        ("USE_CUDNN", "maybe", "USE_CUDNN=maybe: not a flag"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(WrappedCMakeError, match=said):
        Settings({name: value}).definitions()


def test_help_lists_every_parameter() -> None:
    text = help_text()
    assert all(parameter.name in text and parameter.meaning in text for parameter in PARAMETERS)
