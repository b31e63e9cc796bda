"""The simulated runtime through its C interface, in a process of its own each time.

Needs a C++ compiler and three of NVIDIA's wheels with headers (30 MB, fetched once), but no PyTorch.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from simcuda import build, symbols
from tests.unit.simcuda.conftest import run_program

PRELUDE = """
import ctypes as c, os, sys, time
rt = c.CDLL("libcudart.so.12")
cu = c.CDLL("libcuda.so.1")
def ok(code): assert code == 0, code
def malloc(n):
    p = c.c_void_p(); ok(rt.cudaMalloc(c.byref(p), c.c_size_t(n))); return p
def stream():
    s = c.c_void_p(); ok(rt.cudaStreamCreateWithFlags(c.byref(s), 1)); return s
def event(flags=0):
    e = c.c_void_p(); ok(rt.cudaEventCreateWithFlags(c.byref(e), flags)); return e
def size(n): return c.c_size_t(n)
"""


def run(built: Path, program: str, **env: str) -> str:
    """What ``program`` printed, run with the stand-ins of ``built``."""
    return run_program(PRELUDE + program, built, **{"SIMCUDA_DEVICES": "2", **env})


def test_memory_ends_where_it_was_told_to_and_comes_back(built: Path) -> None:
    run(
        built,
        """
p = malloc(48 << 20)
q = c.c_void_p()
assert rt.cudaMalloc(c.byref(q), size(32 << 20)) == 2 and rt.cudaGetLastError() == 2 and rt.cudaGetLastError() == 0
ok(rt.cudaFree(p))
malloc(60 << 20)
""",
    )


def test_copies_check_where_addresses_lie(built: Path) -> None:
    run(
        built,
        """
p = malloc(1024)
here, back = c.create_string_buffer(b"x" * 1024), c.create_string_buffer(1024)
ok(rt.cudaMemcpy(p, here, size(1024), 1))
ok(rt.cudaMemset(p, 121, size(8)))
ok(rt.cudaMemcpy(back, p, size(1024), 2))
assert back.raw == b"y" * 8 + b"x" * 1016
assert rt.cudaMemcpy(p, here, size(1024), 2) == 1, "host to device, named the other way round"
assert rt.cudaMemcpy(p, here, size(4096), 1) == 1, "more than was allocated"
""",
    )


def test_memory_that_was_freed_is_not_copied(built: Path) -> None:
    """It is mapped, so a copy whose kind says nothing of the device read zeros there."""
    run(
        built,
        """
p, q, here = malloc(1024), malloc(1024), c.create_string_buffer(1024)
ok(rt.cudaFree(p))
for copy in (
    lambda: rt.cudaMemcpy(here, p, size(1024), 4), lambda: rt.cudaMemcpy(q, p, size(1024), 1),
    lambda: rt.cudaMemcpyPeer(q, 0, p, 0, size(1024)), lambda: rt.cudaMemcpyPeer(p, 0, q, 0, size(1024)),
):
    assert copy() == 1
""",
    )


def test_work_ends_in_virtual_time(built: Path) -> None:
    run(
        built,
        """
s, e, later = stream(), event(), event()
p, here = malloc(32 << 20), c.c_void_p()
ok(rt.cudaHostAlloc(c.byref(here), size(32 << 20), 0))
ok(rt.cudaEventRecord(e, s))
for _ in range(50): ok(rt.cudaMemcpyAsync(p, here, size(32 << 20), 1, s))
ok(rt.cudaEventRecord(later, s))
assert rt.cudaStreamQuery(s) in (0, 600)
ok(rt.cudaStreamSynchronize(s))
ms = c.c_float(); ok(rt.cudaEventElapsedTime(c.byref(ms), e, later))
assert ms.value >= 50 * 1.3, ms.value   # 32 MiB at 25 GB/s
""",
    )


def test_handles_of_streams_rise_whatever_the_heap_is_like(built: Path) -> None:
    program = """
held, handles = [], []
for n in range(200):
    handles.append(stream().value)
    held.append(bytearray(16 * (n * 7919 % 97 + 1)))
    if n % 3 == 0:
        held.pop(n % len(held))
print(handles == sorted(handles))
"""
    assert run(built, program) == "True"


def test_a_capture_records_and_a_replay_does_it_again(built: Path) -> None:
    run(
        built,
        """
s, g, x = stream(), c.c_void_p(), c.c_void_p()
p, back = malloc(4), c.create_string_buffer(4)
def value():
    ok(rt.cudaMemcpy(back, p, size(4), 2)); return back.raw
ok(rt.cudaMemset(p, 1, size(4)))
ok(rt.cudaStreamBeginCapture(s, 2))
ok(rt.cudaMemsetAsync(p, 7, size(4), s))
ok(rt.cudaStreamEndCapture(s, c.byref(g)))
assert value() == b"\\1" * 4, "capturing does nothing"
ok(rt.cudaGraphInstantiateWithFlags(c.byref(x), g, c.c_ulonglong(0)))
ok(rt.cudaGraphLaunch(x, s)); assert value() == b"\\7" * 4
ok(rt.cudaMemset(p, 1, size(4)))
ok(rt.cudaGraphLaunch(x, s)); assert value() == b"\\7" * 4
""",
    )


def test_memory_of_a_graph_is_given_to_nobody_else_while_the_graph_can_be_launched(built: Path) -> None:
    """Freed outside it was given away: the next launch wrote into another's, and the pool's counters fell below 0."""
    run(
        built,
        """
s, g, x, p, pool = stream(), c.c_void_p(), c.c_void_p(), c.c_void_p(), c.c_void_p()
def free():
    n, total = c.c_size_t(), c.c_size_t(); ok(rt.cudaMemGetInfo(c.byref(n), c.byref(total))); return n.value
def counters():
    n = [c.c_uint64(), c.c_uint64()]
    for value, which in zip(n, (7, 8)): ok(rt.cudaMemPoolGetAttribute(pool, which, c.byref(value)))
    return [value.value for value in n]
ok(rt.cudaDeviceGetDefaultMemPool(c.byref(pool), 0))
before = free()
ok(rt.cudaStreamBeginCapture(s, 2))
ok(rt.cudaMallocAsync(c.byref(p), size(4096), s))
ok(rt.cudaMemsetAsync(p, 7, size(4096), s))
ok(rt.cudaStreamEndCapture(s, c.byref(g)))
ok(rt.cudaGraphInstantiateWithFlags(c.byref(x), g, c.c_ulonglong(0)))
ok(rt.cudaGraphLaunch(x, s)); ok(rt.cudaFreeAsync(p, s)); assert rt.cudaFreeAsync(p, s) == 1, "free already"
assert counters() == [0, 0], counters()
other, back = malloc(4096), c.create_string_buffer(4096)
assert other.value != p.value
ok(rt.cudaMemset(other, 1, size(4096)))
ok(rt.cudaGraphLaunch(x, s)); ok(rt.cudaMemcpy(back, other, size(4096), 2)); assert back.raw == bytes([1]) * 4096
ok(rt.cudaFree(other)); ok(rt.cudaGraphDestroy(g)); ok(rt.cudaGraphExecDestroy(x))
assert free() < before, "what a graph has allocated outlives it"
ok(rt.cudaFree(p)); assert rt.cudaFree(p) == 1 and free() == before and counters() == [0, 0]
""",
    )


def test_memory_that_a_graph_frees_itself_goes_with_it(built: Path) -> None:
    run(
        built,
        """
s, g, x, p = stream(), c.c_void_p(), c.c_void_p(), c.c_void_p()
def free():
    n, total = c.c_size_t(), c.c_size_t(); ok(rt.cudaMemGetInfo(c.byref(n), c.byref(total))); return n.value
before = free()
ok(rt.cudaStreamBeginCapture(s, 2))
ok(rt.cudaMallocAsync(c.byref(p), size(4096), s)); ok(rt.cudaFreeAsync(p, s))
ok(rt.cudaStreamEndCapture(s, c.byref(g)))
ok(rt.cudaGraphInstantiateWithFlags(c.byref(x), g, c.c_ulonglong(0)))
ok(rt.cudaGraphDestroy(g))
for _ in range(2): ok(rt.cudaGraphLaunch(x, s))
assert free() < before
ok(rt.cudaGraphExecDestroy(x)); assert free() == before
""",
    )


def test_memory_that_a_graph_frees_itself_goes_with_it_without_a_launch_too(built: Path) -> None:
    """It was taken as allocated from the capture on, and only a launch freed it."""
    run(
        built,
        """
s, g, p = stream(), c.c_void_p(), c.c_void_p()
def free():
    n, total = c.c_size_t(), c.c_size_t(); ok(rt.cudaMemGetInfo(c.byref(n), c.byref(total))); return n.value
before = free()
ok(rt.cudaStreamBeginCapture(s, 2))
ok(rt.cudaMallocAsync(c.byref(p), size(4096), s)); ok(rt.cudaFreeAsync(p, s))
assert rt.cudaFreeAsync(p, s) == 1 and rt.cudaFree(p) == 1, "its own graph frees it, and once"
ok(rt.cudaStreamEndCapture(s, c.byref(g)))
assert free() < before
ok(rt.cudaGraphDestroy(g)); assert free() == before
""",
    )


def test_memory_of_a_graph_is_freed_by_another_at_its_launch(built: Path) -> None:
    run(
        built,
        """
s, p = stream(), c.c_void_p()
def free():
    n, total = c.c_size_t(), c.c_size_t(); ok(rt.cudaMemGetInfo(c.byref(n), c.byref(total))); return n.value
def capture(work):
    g, x = c.c_void_p(), c.c_void_p()
    ok(rt.cudaStreamBeginCapture(s, 2)); work(); ok(rt.cudaStreamEndCapture(s, c.byref(g)))
    ok(rt.cudaGraphInstantiateWithFlags(c.byref(x), g, c.c_ulonglong(0))); ok(rt.cudaGraphDestroy(g))
    return x
before = free()
allocating = capture(lambda: ok(rt.cudaMallocAsync(c.byref(p), size(4096), s)))
ok(rt.cudaGraphLaunch(allocating, s))
freeing = capture(lambda: ok(rt.cudaFreeAsync(p, s)))
ok(rt.cudaGraphExecDestroy(allocating)); assert free() < before, "no launch has freed it"
ok(rt.cudaGraphLaunch(freeing, s)); assert free() == before
""",
    )


def test_an_allocation_breaks_a_capture(built: Path) -> None:
    run(
        built,
        """
s, g = stream(), c.c_void_p()
ok(rt.cudaStreamBeginCapture(s, 0))
p = c.c_void_p()
assert rt.cudaMalloc(c.byref(p), size(8)) == 900
assert rt.cudaStreamEndCapture(s, c.byref(g)) == 901 and not g
""",
    )


@pytest.mark.parametrize(("mode", "code"), [(0, 908), (1, 908), (2, 0)], ids=["global", "thread-local", "relaxed"])
def test_a_capture_is_ended_by_its_own_thread_unless_it_is_relaxed(built: Path, mode: int, code: int) -> None:
    program = f"""
import threading
s, g = stream(), c.c_void_p()
ok(rt.cudaStreamBeginCapture(s, {mode}))
other = threading.Thread(target=lambda: print(rt.cudaStreamEndCapture(s, c.byref(g)))); other.start(); other.join()
"""
    assert run(built, program) == str(code)


def test_a_stream_that_did_not_join_again_is_an_error(built: Path) -> None:
    run(
        built,
        """
s, other, e, g = stream(), stream(), event(), c.c_void_p()
p = malloc(4)
ok(rt.cudaStreamBeginCapture(s, 2))
ok(rt.cudaEventRecord(e, s)); ok(rt.cudaStreamWaitEvent(other, e, 0))
ok(rt.cudaMemsetAsync(p, 0, size(4), other))
assert rt.cudaStreamEndCapture(s, c.byref(g)) == 904
""",
    )


@pytest.mark.parametrize(("flags", "code", "end"), [(0, 906, 901), (1, 0, 0)], ids=["blocking", "non-blocking"])
def test_the_legacy_stream_is_of_no_use_while_a_blocking_stream_captures(
    built: Path, flags: int, code: int, end: int
) -> None:
    """It would wait for that stream. A program that does it worked here and failed on a GPU."""
    run(
        built,
        f"""
s, other, p, g = c.c_void_p(), stream(), malloc(4), c.c_void_p()
ok(rt.cudaStreamCreateWithFlags(c.byref(s), {flags}))
before, after = event(), event()
ok(rt.cudaEventRecord(before, other))
for use in (
    lambda: rt.cudaMemsetAsync(p, 1, size(4), None), lambda: rt.cudaEventRecord(after, None),
    lambda: rt.cudaStreamWaitEvent(None, before, 0), lambda: rt.cudaStreamSynchronize(None),
):
    ok(rt.cudaStreamBeginCapture(s, 2))
    assert use() == {code}
    assert rt.cudaStreamEndCapture(s, c.byref(g)) == {end}
ok(rt.cudaStreamBeginCapture(s, 2))
assert rt.cudaStreamIsCapturing(None, c.byref(c.c_int())) == {code}, "a question, which breaks nothing"
ok(rt.cudaStreamEndCapture(s, c.byref(g)))
""",
    )


def test_a_child_forked_after_initialisation_cannot_use_it(built: Path) -> None:
    run(
        built,
        """
malloc(8)
child = os.fork()
if not child:
    n = c.c_int()
    os._exit(rt.cudaGetDeviceCount(c.byref(n)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
""",
    )


def test_a_child_forked_after_initialisation_waits_for_nothing(built: Path) -> None:
    """What locks without asking for the process's state waited for ever: a library's call, an operator's shadow."""
    run(
        built,
        """
import signal
p = malloc(8)
child = os.fork()
if not child:
    signal.alarm(20)
    n, room = c.c_int(), c.create_string_buffer(64)
    rt.simcuda_library_call(b"cublasCreate_v2", b"", b"")
    rt.simcuda_place(p, room, c.create_string_buffer(64), size(64)); assert room.value == b"[0,0]"
    assert rt.simcuda_is_capturing(None) == 0
    os._exit(cu.cuDeviceGetCount(c.byref(n)))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
""",
    )


def test_a_device_assert_is_met_by_the_next_call_that_waits_and_sticks(built: Path) -> None:
    run(
        built,
        """
malloc(8)
rt.simcuda_device_assert()
malloc(8)
assert rt.cudaDeviceSynchronize() == 710 and rt.cudaGetLastError() == 710 and rt.cudaDeviceSynchronize() == 710
assert rt.cudaGetDevice(c.byref(c.c_int())) == 0
""",
    )


def test_memory_is_shared_between_processes(built: Path) -> None:
    run(
        built,
        """
import subprocess
p, handle = malloc(4096), c.create_string_buffer(64)
ok(rt.cudaMemset(p, 5, size(4096)))
ok(rt.cudaIpcGetMemHandle(handle, p))
class Handle(c.Structure): _fields_ = [("bytes", c.c_char * 64)]
code = '''
import ctypes as c, sys
class Handle(c.Structure): _fields_ = [("bytes", c.c_ubyte * 64)]
rt = c.CDLL("libcudart.so.12")
h = Handle((c.c_ubyte * 64)(*bytes.fromhex(sys.argv[1])))
p = c.c_void_p()
assert rt.cudaIpcOpenMemHandle(c.byref(p), h, 1) == 0
b = c.create_string_buffer(4096)
assert rt.cudaMemcpy(b, p, c.c_size_t(4096), 2) == 0 and b.raw == bytes([5]) * 4096
assert rt.cudaMemset(p, 9, c.c_size_t(4096)) == 0
'''
subprocess.run([sys.executable, "-c", code, handle.raw.hex()], check=True)
back = c.create_string_buffer(4096)
ok(rt.cudaMemcpy(back, p, size(4096), 2))
assert back.raw == bytes([9]) * 4096
""",
    )


def test_an_interprocess_event_keeps_no_file_open_when_it_is_destroyed(built: Path) -> None:
    """PyTorch makes one for each tensor that it sends: about 1,000 of them were all that a process could send."""
    run(
        built,
        """
import resource, subprocess
class Handle(c.Structure): _fields_ = [("bytes", c.c_ubyte * 64)]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
def shared():
    e, handle = event(6), Handle(); ok(rt.cudaIpcGetEventHandle(c.byref(handle), e)); return e, handle
for _ in range(100): ok(rt.cudaEventDestroy(shared()[0]))
code = '''
import ctypes as c, sys
class Handle(c.Structure): _fields_ = [("bytes", c.c_ubyte * 64)]
rt, e, again = c.CDLL("libcudart.so.12"), c.c_void_p(), Handle()
code = rt.cudaIpcOpenEventHandle(c.byref(e), Handle((c.c_ubyte * 64)(*bytes.fromhex(sys.argv[1]))))
if code: sys.exit(code % 256)
assert rt.cudaEventQuery(e) == 0 and rt.cudaIpcGetEventHandle(c.byref(again), e) == 0
assert bytes(again).hex() == sys.argv[1] and rt.cudaEventDestroy(e) == 0
'''
def opened(handle): return subprocess.run([sys.executable, "-c", code, bytes(handle).hex()]).returncode
e, handle = shared()
assert opened(handle) == opened(handle) == 0, "who opened it and destroyed that leaves it to others"
ok(rt.cudaEventDestroy(e))
assert opened(handle) == 400 % 256
other, _ = shared()  # a file of the same number
assert opened(handle) == 400 % 256
""",
    )


@pytest.mark.parametrize(
    ("visible", "count"), [("0", "1"), ("1,0", "2"), ("", "0"), ("0,0", "0"), ("0,7,1", "1"), ("GPU-00000001", "1")]
)
def test_cuda_visible_devices_is_read_as_the_driver_does(built: Path, visible: str, count: str) -> None:
    program = "n = c.c_int(); rt.cudaGetDeviceCount(c.byref(n)); print(n.value)"
    assert run(built, program, CUDA_VISIBLE_DEVICES=visible) == count


def test_every_error_that_the_runtime_returns_has_its_name() -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in (build.NATIVE / "runtime").glob("*.cpp")}
    named = set(re.findall(r"NAME\((cudaError\w+),", sources["world.cpp"]))
    returned = set(re.findall(r"\bcudaError[A-Z]\w+", "".join(sources.values())))
    assert "cudaErrorIllegalState" in returned and returned - named == set()


def test_what_is_not_implemented_is_named_in_the_log(built: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    run(built, "assert rt.cudaArrayGetInfo(None, None, None, None) == 801", SIMCUDA_LOG=str(log))
    assert log.read_text() == "cudaArrayGetInfo\n"


def test_as_many_blocks_fit_as_registers_and_shared_memory_allow(built: Path) -> None:
    """CUB's radix sort starts so many: on an H100 7 blocks of 128 threads for such a kernel, and 16 here before."""
    run(
        built,
        """
from device import Runtime
kernels, n = Runtime(), c.c_int()
for threads, dynamic, fit in (128, 0, 7), (1024, 0, 0), (32, 0, 22), (128, 50000, 3):
    ok(rt.cudaOccupancyMaxActiveBlocksPerMultiprocessor(c.byref(n), kernels.function, threads, c.c_size_t(dynamic)))
    assert n.value == fit, (threads, dynamic, n.value)
""",
        PYTHONPATH=str(Path(__file__).parent),
        LD_PRELOAD=str(built / "libcudart.so.12"),
    )


LAUNCH = """
from device import Dim, Runtime
kernels = Runtime()  # compiled for 9.0, with 70 registers and 9,216 bytes of shared memory
arguments = (c.c_void_p * 4)(*[c.addressof(c.create_string_buffer(24))] * 4)
def launch(threads=32, shared=0, blocks=1, start=rt.cudaLaunchKernel):
    start.argtypes = [c.c_void_p, Dim, Dim, c.c_void_p, c.c_size_t, c.c_void_p]
    return start(c.addressof(kernels.function), Dim(blocks, 1, 1), Dim(threads, 1, 1), arguments, shared, None)
"""


@pytest.mark.parametrize(
    ("arch", "code"),
    [("9.0", 0), ("9.2", 0), ("8.6", 209), ("10.0", 209)],
    ids=["own", "later", "earlier", "next major"],
)
def test_a_kernel_runs_within_the_major_version_that_it_was_compiled_for(built: Path, arch: str, code: int) -> None:
    """A torch_cuda for 8.0 alone passed on the simulated 9.0; an H100 has no kernel image for it."""
    launched = run(
        built,
        LAUNCH + "print(launch())",
        PYTHONPATH=str(Path(__file__).parent),
        LD_PRELOAD=str(built / "libcudart.so.12"),
        SIMCUDA_ARCH=arch,
    )
    assert launched == str(code)


def test_a_launch_gets_no_more_than_a_block_has_and_the_program_opted_in_to(built: Path) -> None:
    """Codes of the runtime: 1 invalid value, 701 too many resources, 720 too large for a cooperative launch."""
    run(
        built,
        LAUNCH
        + """
opt_in = lambda size: rt.cudaFuncSetAttribute(kernels.function, 8, size)
assert [launch(shared=40000 - 64), launch(shared=40000)] == [0, 1]
assert [opt_in(232448), opt_in(200000), launch(shared=200000), launch(shared=200001)] == [1, 0, 0, 1]
assert [launch(threads) for threads in (896, 1024)] == [0, 701]
assert [launch(blocks=blocks, start=rt.cudaLaunchCooperativeKernel) for blocks in (132 * 22, 132 * 22 + 1)] == [0, 720]
""",
        PYTHONPATH=str(Path(__file__).parent),
        LD_PRELOAD=str(built / "libcudart.so.12"),
    )


def test_the_driver_counts_no_device_before_it_is_initialized(built: Path) -> None:
    """By it upstream tells whether ``import torch`` called CUDA (test_cuda.py, test_lazy_init)."""
    begin = "n = c.c_int(); assert cu.cuDeviceGetCount(c.byref(n)) == 3; "
    for how in "ok(cu.cuInit(0))", "ok(rt.cudaGetDeviceCount(c.byref(n)))":
        run(built, f"{begin}{how}; ok(cu.cuDeviceGetCount(c.byref(n)))")


def test_a_refused_launch_has_a_code_of_the_driver_s(built: Path) -> None:
    run(
        built,
        """
ok(rt.cudaFree(None))
module, function = c.c_void_p(), c.c_void_p()
ok(cu.cuModuleLoadData(c.byref(module), None)); ok(cu.cuModuleGetFunction(c.byref(function), module, b"axpy"))
assert cu.cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, None, None, None) == 1
ok(cu.cuLaunchKernel(function, 1, 1, 1, 1024, 1, 1, 0, None, None, None))
""",
    )


def test_a_context_is_current_until_it_is_popped(built: Path) -> None:
    run(
        built,
        """
ok(cu.cuInit(0))
contexts, top, flags, active = [c.c_void_p(), c.c_void_p()], c.c_void_p(), c.c_uint(), c.c_int()
def current():
    n = c.c_int(); ok(cu.cuCtxGetDevice(c.byref(n))); return n.value
ok(cu.cuDevicePrimaryCtxRetain(c.byref(contexts[1]), 1))
ok(cu.cuCtxPushCurrent(contexts[1])); assert current() == 1
ok(cu.cuCtxPopCurrent(c.byref(top))); assert top.value == contexts[1].value and current() == 0
ok(cu.cuDevicePrimaryCtxGetState(0, c.byref(flags), c.byref(active))); assert not active.value, "pushed onto nothing"
assert cu.cuCtxPopCurrent(c.byref(top)) == 201
ok(cu.cuDevicePrimaryCtxRetain(c.byref(contexts[0]), 0))
for context in contexts[0], contexts[1], contexts[1]: ok(cu.cuCtxPushCurrent(context))
for device in 1, 0, 0: ok(cu.cuCtxPopCurrent(None)); assert current() == device
""",
    )


def test_virtual_memory_has_no_access_until_it_is_given(built: Path) -> None:
    run(
        built,
        """
ok(cu.cuInit(0))
ok(rt.cudaFree(None))
start, free, total = c.c_size_t(), c.c_size_t(), c.c_size_t()
ok(rt.cudaMemGetInfo(c.byref(start), c.byref(total))); assert 0 < total.value - start.value <= total.value // 32
class Location(c.Structure): _fields_ = [("type", c.c_int), ("id", c.c_int)]
class Prop(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("location", Location),
                ("win", c.c_void_p), ("flags", c.c_ubyte * 32)]
class Access(c.Structure): _fields_ = [("location", Location), ("flags", c.c_int)]
MB2 = 2 << 20
at, handle = c.c_ulonglong(), c.c_ulonglong()
ok(cu.cuMemAddressReserve(c.byref(at), size(2 * MB2), size(0), c.c_ulonglong(0), c.c_ulonglong(0)))
prop = Prop(1, 0, Location(1, 0))
ok(cu.cuMemCreate(c.byref(handle), size(MB2), c.byref(prop), c.c_ulonglong(0)))
ok(cu.cuMemMap(at, size(MB2), size(0), handle, c.c_ulonglong(0)))
ok(cu.cuMemSetAccess(at, size(MB2), c.byref(Access(Location(1, 0), 3)), size(1)))
ok(cu.cuMemRelease(handle))
ok(rt.cudaMemset(c.c_void_p(at.value), 3, size(MB2)))
assert c.string_at(at.value, 4) == bytes([3]) * 4
ok(rt.cudaMemGetInfo(c.byref(free), c.byref(total))); assert start.value - free.value == MB2
ok(cu.cuMemUnmap(at, size(MB2)))
ok(rt.cudaMemGetInfo(c.byref(free), c.byref(total))); assert start.value == free.value
""",
    )


def test_a_tensor_map_begins_with_its_address_and_is_refused_as_the_driver_documents(built: Path) -> None:
    run(
        built,
        """
ok(cu.cuInit(0))
raw = c.create_string_buffer(192)
map = c.c_void_p((c.addressof(raw) + 63) & ~63)
def tiled(sizes=(64, 16), strides=(128,), box=(64, 8), steps=(1, 1), swizzle=3, fill=0, at=0x6e0000001000):
    half, rank = 6, len(sizes)
    return cu.cuTensorMapEncodeTiled(map, half, rank, c.c_void_p(at), (c.c_uint64 * rank)(*sizes),
                                     (c.c_uint64 * len(strides))(*strides), (c.c_uint * rank)(*box),
                                     (c.c_uint * rank)(*steps), 0, swizzle, 2, fill)
def first(): return c.cast(map, c.POINTER(c.c_uint64))[0]
ok(tiled()); assert first() == 0x6e0000001000
one = c.string_at(map, 128)
ok(tiled(box=(32, 8))); assert c.string_at(map, 128) != one
ok(cu.cuTensorMapReplaceAddress(map, c.c_void_p(0x6e0000002000))); assert first() == 0x6e0000002000
for wrong in (dict(at=0x6e0000001008), dict(strides=(120,)), dict(box=(257, 8)), dict(box=(7, 8)), dict(steps=(1, 9)),
              dict(box=(128, 8)), dict(sizes=(64, 0)),
              dict(sizes=(1,) * 6, strides=(16,) * 5, box=(8,) * 6, steps=(1,) * 6)):
    assert tiled(**wrong) == 1, wrong
assert first() == 0x6e0000002000
""",
    )


def test_the_driver_answers_to_names_without_a_version(built: Path) -> None:
    run(
        built,
        """
assert c.cast(cu.cuStreamWriteValue32, c.c_void_p).value == c.cast(cu.cuStreamWriteValue32_v2, c.c_void_p).value
""",
    )


def test_an_exception_of_the_program_passes_its_own_cpp_library_only(built: Path, tmp_path: Path) -> None:
    """Upstream's FSDP tests ended by signal 6: ``std::map::at`` threw with libcuda's unwinder, not libstdc++'s."""
    source, program = tmp_path / "at.cpp", tmp_path / "libat.so"
    source.write_text(
        """
#include <map>
#include <stdexcept>
extern "C" int caught() {
  try { return std::map<int, int>{}.at(1); } catch (const std::out_of_range&) { return 7; }
}
""",
        encoding="utf-8",
    )
    subprocess.run(["c++", "-shared", "-fPIC", "-o", program, source], check=True)
    preload = [str(built / name) for name in ("libsimcuda_threads.so", "libcuda.so.1") if (built / name).exists()]
    run(built, f"assert c.CDLL({str(program)!r}).caught() == 7", LD_PRELOAD=" ".join(preload))


def test_no_stand_in_has_cpp_library_for_others(built: Path) -> None:
    theirs = re.compile(r"_Z(St|NSt|NKSt)|_Unwind_|__cxa_|__gxx_")
    found = {
        one.name: [name for name in symbols.read_defined_functions(one) if theirs.match(name)]
        for one in built.glob("*.so*")
    }
    assert found and not any(found.values())
