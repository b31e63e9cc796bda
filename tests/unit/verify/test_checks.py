"""The checks of installed wheels: on a torch that is right, and on one with each fault that a check is there for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from decouple.verify import checks
from decouple.verify.elf import Library
from decouple.verify.venvs import TorchEnvironment
from tests.unit.verify import pretended
from tests.unit.verify.conftest import Compile


@pytest.fixture
def core(tmp_path: Path) -> TorchEnvironment:
    """A pretended core without CUDA."""
    python = pretended.write(tmp_path)
    pretended.plant(python, "torch/version.py", "cuda = '12.4'", "cuda = None")
    command = ("env", f"PYTHONPATH={tmp_path / 'site'}", sys.executable)
    return TorchEnvironment("made up", command, tmp_path, str(tmp_path))


def plant(torch: TorchEnvironment, name: str, old: str, new: str) -> None:
    pretended.plant(torch.folder / "python", name, old, new)


def find_failed(found: list[checks.CheckResult]) -> list[str]:
    return [one.name for one in found if not one.passed]


@pytest.mark.usefixtures("strace")
def test_a_core_without_cuda(core: TorchEnvironment) -> None:
    found = checks.check_core_alone(core)
    assert (len(found), find_failed(found)) == (3, [])


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("file", "old", "new", "check"),
    [
        (
            "torch/__init__.py",
            "Generator = None",
            "import ctypes\ntry: ctypes.CDLL('libcudart.so.12')\nexcept OSError: pass",
            "the core alone opens no CUDA library",
        ),
        ("torch/cuda/__init__.py", "return False", "return True", "the core alone: torch.cuda.is_available()"),
        ("torch/version.py", "cuda = None", "cuda = '12.4'", "the core alone: torch.version.cuda"),
    ],
)
def test_a_core_with_something_of_cuda(core: TorchEnvironment, file: str, old: str, new: str, check: str) -> None:
    plant(core, file, old, new)
    assert find_failed(checks.check_core_alone(core)) == [check]


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("asks", "failed"),
    [("ctypes.CDLL({!r})", True), ("\ntry: ctypes.CDLL({!r})\nexcept OSError: pass", False)],
    ids=["needs it", "asks for it"],
)
def test_a_machine_without_a_driver(core: TorchEnvironment, compile_library: Compile, asks: str, failed: bool) -> None:
    driver = str(compile_library("libcuda.so.1", "int cuInit(void) { return 0; }", side="driver"))
    plant(core, "torch/__init__.py", "Generator = None", f"import ctypes; {asks.format(driver)}")
    offer = {"facts": {"torch.ones(1).cuda()": "RuntimeError: Found no NVIDIA driver"}}
    found = checks.check_both_wheels(core, offer, [])
    assert find_failed(found) == (["importing with no libcuda.so on the machine"] if failed else [])
    assert driver in found[0].observed or failed


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("told", "passed"),
    [
        ("RuntimeError: No CUDA GPUs are available", True),
        ("tensor([1.], device='cuda:0')", True),
        ("OSError: libcudart.so.12: cannot open shared object file", False),
        ("AssertionError: Torch not compiled with CUDA enabled", False),
    ],
)
def test_a_call_for_a_device_fails_as_upstreams(core: TorchEnvironment, told: str, passed: bool) -> None:
    found = checks.check_both_wheels(core, {"facts": {"torch.ones(1).cuda()": told}}, [])
    assert find_failed(found) == ([] if passed else ["a call that needs a device"])


VENDOR = {
    "version.cuda": None,
    "version.hip": "6.1",
    "cuda.is_available()": False,
    "cuda._CUDAC": "torch_hip._CUDAC",
    "zeros(2, device='cuda')": "RuntimeError: No HIP GPUs are available",
    "kernels": 1678,
}


@pytest.mark.parametrize(
    ("told", "check"),
    [
        ({}, None),
        ({"cuda._CUDAC": "torch_cuda._CUDAC"}, "torch.cuda._CUDAC"),
        ({"version.cuda": "12.4"}, "torch.version.cuda"),
        ({"version.hip": None}, "torch.version.hip"),
        ({"kernels": 0}, "operators with a kernel on the key"),
        ({"zeros(2, device='cuda')": "RuntimeError: no kernel"}, "a call that needs a device"),
    ],
)
def test_another_vendors_package(tmp_path: Path, told: Mapping[str, object], check: str | None) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(VENDOR | dict(told)).replace(chr(39), chr(92) + 'u0027')}'\n")
    python.chmod(0o755)
    found = checks.check_vendor(TorchEnvironment("made up", (str(python),), tmp_path, str(tmp_path)), "torch_hip")
    assert find_failed(found) == ([check] if check else [])


def make_library(name: str, *symbols: str) -> Library:
    nothing: frozenset[str] = frozenset()
    return Library(Path(name), name, (), (), frozenset(symbols), nothing, nothing, nothing)


def test_a_library_is_not_answered_for_by_one_with_a_longer_name() -> None:
    moved = "_ZN2at4cuda4blas4gemmEv"
    single = [make_library("libc10_cuda.so"), make_library("libtorch_cuda.so", moved)]
    ours = [
        make_library("libc10_cuda.so"),
        make_library("libtorch_cuda.so"),
        make_library("libtorch_cuda_linalg.so", moved),
    ]
    assert [one.missing for one in checks.compare_library_symbols(single, single)] == [(), ()]
    assert [len(one.missing) for one in checks.compare_library_symbols(ours, single)] == [0, 1]
