"""Parameters are read as upstream reads them, and a wrong one stops the build before it starts."""

from __future__ import annotations

import re

import pytest
from wrapped_cmake import PARAMETERS, Settings, WrappedCMakeError, help_text, plan_jobs, read_project

from decouple.base.paths import find_project

TORCH_CUDA = read_project(find_project() / "third_device" / "torch_cuda").parameters
TORCH_HIP = read_project(find_project() / "third_device" / "torch_hip").parameters


def test_every_use_build_and_cmake_variable_goes_to_cmake() -> None:
    made = Settings({"USE_NEVER_HEARD_OF": "1", "BUILD_X": "0", "CMAKE_Y": "z", "HOME": "/root"}).definitions()
    assert made == {"USE_NEVER_HEARD_OF": "1", "BUILD_X": "0", "CMAKE_Y": "z", "CMAKE_BUILD_TYPE": "Release"}


def test_names_that_upstream_translates() -> None:
    made = Settings({"CUDA_HOME": "/opt/cuda", "CUDACXX": "/usr/bin/nvcc"}, TORCH_CUDA).definitions()
    assert made["CUDAToolkit_ROOT"] == "/opt/cuda"
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
    settings = Settings({"TORCH_CUDA_ARCH_LIST": f"8.0{separator}9.0a+PTX"}, TORCH_CUDA)
    assert settings.read_list("TORCH_CUDA_ARCH_LIST") == ["8.0", "9.0a+PTX"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TORCH_CUDA_ARCH_LIST", "8.0;ninety", "'ninety' does not match"),
        ("MAX_JOBS", "many", "MAX_JOBS=many: not a positive number"),
        ("MAX_JOBS", "0", "MAX_JOBS=0: not a positive number"),
        ("USE_CUDNN", "maybe", "USE_CUDNN=maybe: not a flag"),
        ("USE_MAGMA", "maybe", "USE_MAGMA=maybe: not a switch"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, said: str) -> None:
    with pytest.raises(WrappedCMakeError, match=said):
        Settings({name: value}, TORCH_CUDA).definitions()


def test_a_list_of_arguments_is_quoted_as_in_a_shell() -> None:
    assert Settings({"CMAKE_ARGS": "-DA='b c' -DD=1"}).list_words("CMAKE_ARGS") == ["-DA=b c", "-DD=1"]
    with pytest.raises(WrappedCMakeError, match="CMAKE_ARGS=-DA='b: No closing quotation"):
        Settings({"CMAKE_ARGS": "-DA='b"}).list_words("CMAKE_ARGS")


def test_help_lists_every_parameter() -> None:
    for parameters in (PARAMETERS, TORCH_CUDA):
        text = help_text(parameters)
        assert all(parameter.name in text and parameter.meaning in text for parameter in parameters)


@pytest.mark.parametrize(("value", "is_"), [("auto", None), ("AUTO", None), ("1", True), ("off", False)])
def test_a_switch_may_be_left_to_what_is_found(value: str, is_: bool | None) -> None:
    assert Settings({"USE_MAGMA": value}, TORCH_CUDA).switch("USE_MAGMA") is is_
    assert Settings({"USE_MAGMA": value}, TORCH_CUDA).definitions()["USE_MAGMA"] == value


def test_every_choice_of_torch_cudas_cmake_is_a_parameter() -> None:
    """One that is none was not listed, and of another value `wrapped_cmake configure` said "already configured so"."""
    options = (find_project() / "third_device/torch_cuda/cmake/Options.cmake").read_text()
    names = set(re.findall(r"^torch_cuda_option\((\w+)", options, re.MULTILINE))
    assert "TORCH_CUDA_SLICE" in names and names <= {parameter.name for parameter in TORCH_CUDA}
    assert all(Settings({name: "1.0"}, TORCH_CUDA).definitions().get(name) for name in names if "USE_" not in name)


def test_a_build_of_torch_hip_has_its_choices_and_its_pool_too() -> None:
    """It is torch_cuda's CMake in another folder: without a file of its own its sources were compiled without limit."""
    description = (find_project() / "third_device/torch_cuda/cmake/toolkit/rocm.cmake").read_text()
    names = set(re.findall(r"^torch_cuda_option\((\w+)", description, re.MULTILINE))
    assert "ROCM_PATH" in names and names <= {parameter.name for parameter in TORCH_HIP}
    for parameters in (TORCH_CUDA, TORCH_HIP):
        assert plan_jobs(Settings({}, parameters), processors=16, memory=32 << 30).pools["cuda"] == 8


def test_no_parameter_is_inert() -> None:
    """What goes to CMake is read by some project's CMake, or by CMake itself."""
    folder = find_project() / "third_device"
    texts = [path.read_text() for pattern in ("*.cmake", "CMakeLists.txt") for path in folder.rglob(pattern)]
    read = "".join(text for text in texts)
    for parameter in (*PARAMETERS, *TORCH_CUDA, *TORCH_HIP):
        name = parameter.cmake or (parameter.name if parameter.name.startswith("USE_") else "")
        library = name.removesuffix("_LIB_DIR").removesuffix("_INCLUDE_DIR").removesuffix("_LIBRARY")
        own = name.startswith("CMAKE_") or name == "CUDAToolkit_ROOT"  # of CMake and its FindCUDAToolkit
        assert own or name in read or f"torch_cuda_beside({library} " in read, name
