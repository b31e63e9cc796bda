"""CUDA 11.8: other SONAMEs, other symbol versions, functions that CUDA 12 changed or no longer has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from simcuda import build, vendor
from simcuda.errors import SimcudaError
from tests.unit.simcuda.conftest import run_program, stand_ins, use_shared_cache

PROGRAM = """
import ctypes as c
rt, cu = c.CDLL("libcudart.so.11.0"), c.CDLL("libcuda.so.1")
def ok(code): assert code == 0, code
version = c.c_int(); ok(rt.cudaRuntimeGetVersion(c.byref(version))); assert version.value == 11080
stream = c.c_void_p(); ok(rt.cudaStreamCreateWithFlags(c.byref(stream), 1))
memory = c.c_void_p(); ok(rt.cudaMalloc(c.byref(memory), c.c_size_t(512)))
def captured(fills):
    graph, status, number = c.c_void_p(), c.c_int(), c.c_ulonglong()
    ok(rt.cudaStreamBeginCapture(stream, 0))
    for value in fills:
        ok(rt.cudaMemsetAsync(memory, value, c.c_size_t(512), stream))
    ok(rt.cudaStreamGetCaptureInfo(stream, c.byref(status), c.byref(number)))
    assert status.value == 1 and number.value
    ok(rt.cudaStreamEndCapture(stream, c.byref(graph)))
    return graph
program, node, result = c.c_void_p(), c.c_void_p(), c.c_int()
ok(rt.cudaGraphInstantiate(c.byref(program), captured([1]), c.byref(node), None, c.c_size_t(0)))
ok(rt.cudaGraphExecUpdate(program, captured([2]), c.byref(node), c.byref(result)))
ok(rt.cudaGraphLaunch(program, stream)); ok(rt.cudaStreamSynchronize(stream))
byte = c.c_ubyte(); ok(rt.cudaMemcpy(c.byref(byte), memory, c.c_size_t(1), 2)); assert byte.value == 2
assert rt.cudaGraphExecUpdate(program, captured([1, 2]), c.byref(node), c.byref(result)) and result.value == 2
found = c.c_void_p(); ok(cu.cuGetProcAddress(b"cuInit", c.byref(found), 11080, c.c_ulonglong(0))); assert found.value
"""


@pytest.fixture(scope="module")
def older() -> Path:
    return stand_ins("11.8", "cudart", "cuda")


def test_the_runtime_and_the_driver_speak_as_11_8_does(older: Path) -> None:
    run_program(PROGRAM, older, SIMCUDA_DEVICES="1")


def test_the_recorder_passes_on_what_11_8_is_asked(older: Path, tmp_path: Path) -> None:
    """A graph is instantiated there with five arguments; it was not compiled, and that of 12.4 passed three on."""
    with use_shared_cache():
        recorder = build.make_recorder(Path("/nowhere"), "11.8")
    program = PROGRAM.replace('c.CDLL("libcudart.so.11.0")', "c.CDLL(None)")
    calls = {"SIMCUDA_DEVICES": "1", "SIMCUDA_LEDGER": str(tmp_path / "calls")}
    run_program(program, older, recorder, "libcudart.so.11.0", **calls)
    assert '["graph",' in "".join(path.read_text() for path in tmp_path.iterdir())


@pytest.mark.tools("nm")
def test_a_symbol_has_the_version_that_nvidias_has(older: Path) -> None:
    said = subprocess.run(["nm", "-D", str(older / "libcudart.so.11.0")], capture_output=True, text=True, check=True)
    assert " T cudaMalloc@@libcudart.so.11.0\n" in said.stdout


def test_the_version_is_that_of_the_runtime_that_torch_needs() -> None:
    assert vendor.match_cuda_version(["libc10.so", "libcudart.so.11.0"]) == "11.8"
    assert vendor.match_cuda_version(["libcudart.so.12"]) == "12.4"
    assert vendor.match_cuda_version(["libc10.so"]) == vendor.CUDA, "linked in: nothing says which"
    with pytest.raises(SimcudaError, match=r"\.so\.13.*\.so\.11\.0"):
        vendor.match_cuda_version(["libcudart.so.13"])


def test_headers_of_another_cuda_in_the_same_folder_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's wheels for CUDA 11 and for 12 lie in the same folders of site-packages."""
    (tmp_path / "nvidia/cublas/include").mkdir(parents=True)
    (tmp_path / "nvidia_cublas_cu12-12.4.5.8.dist-info").mkdir()
    monkeypatch.setattr(vendor, "fetch_wheel", lambda pin, *_: Path("/fetched") / pin)
    here, inside = tmp_path / "nvidia/cublas", Path("nvidia/cublas")
    assert vendor.find_kit(tmp_path, tmp_path / "cache", "12.4").find_folder("cublas") == here
    other = vendor.find_kit(tmp_path, tmp_path / "cache", "11.8").find_folder("cublas")
    assert other == Path("/fetched/nvidia-cublas-cu11==11.11.3.6") / inside
