"""What CUPTI's stand-in tells a subscriber of the simulated runtime: the records that a profiler is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.simcuda.conftest import run_program

# Kinds, correlations and offsets of cupti_activity.h (CUDA 12.4).
PROGRAM = """
import ctypes as c, json, struct, threading
from device import Runtime
cuda, cupti = Runtime(), c.CDLL("libcupti.so.12")
rt = cuda.rt
COPY, FILL, CALL, KERNEL, WAIT, OUTER = 1, 2, 5, 10, 38, 39
room, records = c.create_string_buffer(1 << 16), []
def read(kind, at):
    if kind == CALL:
        cbid, start, end, process, thread, call, result = struct.unpack_from("<IQQIIII", c.string_at(at, 44), 4)
        return {"is": "call", "cbid": cbid, "call": call, "start": start, "end": end}
    if kind == OUTER:
        outer, number, call = struct.unpack_from("<IQI", c.string_at(at, 20), 4)
        return {"is": "outer", "kind": outer, "number": number, "call": call}
    if kind == KERNEL:
        text = c.string_at(at, 112)
        start, end = struct.unpack_from("<QQ", text, 16)
        device, context, stream, *sizes = struct.unpack_from("<IIIiiiiii", text, 40)
        call, = struct.unpack_from("<I", text, 92)
        name, = struct.unpack_from("<Q", text, 104)
        name = c.string_at(name).decode()
        times = {"start": start, "end": end}
        return {"is": "kernel", "name": name, "call": call, "stream": stream, "sizes": sizes, **times}
    if kind == WAIT:
        how, start, end, call, context, stream = struct.unpack_from("<IQQIII", c.string_at(at, 40), 4)
        return {"is": "wait", "how": how, "call": call, "stream": stream, "time": end - start}
    text = c.string_at(at, 56)
    size, start, end, device, context, stream, call = struct.unpack_from("<QQQIIII", text, 8)
    return {"is": "copy" if kind == COPY else "fill", "how": text[4], "size": size, "call": call, "stream": stream}
@c.CFUNCTYPE(None, c.POINTER(c.c_void_p), c.POINTER(c.c_size_t), c.POINTER(c.c_size_t))
def request(buffer, size, most):
    buffer[0], size[0], most[0] = c.addressof(room), len(room), 0
@c.CFUNCTYPE(None, c.c_void_p, c.c_uint32, c.c_void_p, c.c_size_t, c.c_size_t)
def complete(context, stream, buffer, size, valid):
    at = c.c_void_p()
    while cupti.cuptiActivityGetNextRecord(c.c_void_p(buffer), c.c_size_t(valid), c.byref(at)) == 0:
        records.append(read(c.c_uint32.from_address(at.value).value, at.value))
def ok(code): assert code == 0, code
ok(cupti.cuptiActivityRegisterCallbacks(request, complete))
def listen(*kinds):
    for kind in kinds: ok(cupti.cuptiActivityEnable(kind))
def told():
    ok(cupti.cuptiActivityFlushAll(0))
    found = list(records)
    records.clear()
    return found
x, y = cuda.malloc(1024), cuda.malloc(1024)
"""


def run(built: Path, program: str) -> Any:
    """What ``program`` printed, as JSON."""
    return json.loads(run_program(PROGRAM + program, built, "libcudart.so.12", "libcupti.so.12"))


def test_a_kernel_belongs_to_its_launch_and_that_to_what_the_subscriber_was_doing(built: Path) -> None:
    outer, kernel, call = run(
        built,
        """
listen(CALL, KERNEL, OUTER)
ok(cupti.cuptiActivityPushExternalCorrelationId(3, c.c_uint64(7)))
ok(cupti.cuptiActivityPushExternalCorrelationId(3, c.c_uint64(77)))
cuda.axpy(x, y, 7, grid=5)
print(json.dumps(told()))
""",
    )
    assert (outer["is"], outer["kind"], outer["number"]) == ("outer", 3, 77)
    assert (kernel["is"], kernel["name"], kernel["stream"]) == ("kernel", "axpy", 7)
    assert kernel["sizes"] == [5, 1, 1, 32, 1, 1]
    assert (call["is"], call["cbid"]) == ("call", 211)  # cudaLaunchKernel
    assert outer["call"] == kernel["call"] == call["call"] > 0
    assert call["start"] <= call["end"]
    assert kernel["start"] < kernel["end"]


def test_copies_and_fills_say_what_they_move(built: Path) -> None:
    found = run(
        built,
        """
listen(COPY, FILL)
host = c.create_string_buffer(64)
ok(rt.cudaMemcpy(x, host, c.c_size_t(64), 1))
ok(rt.cudaMemcpy(host, x, c.c_size_t(32), 2))
ok(rt.cudaMemcpy(y, x, c.c_size_t(16), 3))
ok(rt.cudaMemset(x, 0, c.c_size_t(128)))
print(json.dumps(told()))
""",
    )
    assert [(one["is"], one["size"]) for one in found] == [("copy", 64), ("copy", 32), ("copy", 16), ("fill", 128)]
    assert [one["how"] for one in found[:3]] == [1, 2, 8]  # host to device, device to host, on the device


def test_waits_for_a_stream_and_for_the_device(built: Path) -> None:
    first, second = run(
        built,
        """
listen(WAIT)
ok(rt.cudaStreamSynchronize(None))
cuda.axpy(x, y, 7)
ok(rt.cudaDeviceSynchronize())
print(json.dumps(told()))
""",
    )
    assert (first["is"], first["how"], first["stream"]) == ("wait", 3, 7)
    assert (second["is"], second["how"], second["stream"]) == ("wait", 4, 0xFFFFFFFF)


def test_nothing_is_told_before_and_after(built: Path) -> None:
    before, during, after = run(
        built,
        """
cuda.axpy(x, y, 7)
before = told()
listen(KERNEL)
cuda.axpy(x, y, 7)
ok(cupti.cuptiActivityDisable(KERNEL))
cuda.axpy(x, y, 7)
print(json.dumps([before, told(), told()]))
""",
    )
    assert (len(before), len(during), len(after)) == (0, 1, 0)


def test_a_full_buffer_is_handed_out_and_another_asked_for(built: Path) -> None:
    kernels = run(
        built,
        """
listen(KERNEL)
for n in range(1000): cuda.axpy(x, y, n)
print(json.dumps(told()))
""",
    )
    assert len({one["call"] for one in kernels}) == 1000


def test_work_that_lies_ahead_has_its_time_in_the_subscribers_clock(built: Path) -> None:
    behind, call, kernel = run(
        built,
        """
import time
from device import Dim
@c.CFUNCTYPE(c.c_uint64)
def clock():
    now = time.monotonic_ns() * 3 + 1000
    late.append(0.001 * (len(late) % 2))  # as on a machine that is busy
    time.sleep(late[-1])
    return now
late = [0]
ok(cupti.cuptiActivityRegisterTimestampCallback(clock))
cuda.axpy(x, y, 7)
spin, cycles = c.create_string_buffer(8), c.c_int64(400_000_000)  # a fifth of a second
name = b"spin_kernel"
getattr(rt, "__cudaRegisterFunction")(cuda.handle, spin, name, name, -1, None, None, None, None, None)
arguments = (c.c_void_p * 1)(c.addressof(cycles))
ok(rt.cudaLaunchKernel(c.addressof(spin), Dim(1, 1, 1), Dim(32, 1, 1), arguments, 0, None))
listen(CALL, KERNEL)
cuda.axpy(x, y, 7)
kernel, call = told()
ok(rt.cudaDeviceSynchronize())
print(json.dumps([clock(), call, kernel]))
""",
    )
    spun = 600_000_000  # of that clock, which is three times as fast; a busy machine reads it milliseconds late
    assert call["start"] <= call["end"] < kernel["start"] - spun // 2  # it waits for the other one
    assert kernel["end"] - kernel["start"] == pytest.approx(6000, rel=0.1)  # 2 microseconds
    assert kernel["end"] < behind + spun // 10


def test_one_subscriber_at_a_time(built: Path) -> None:
    first, second, third = run(
        built,
        """
at = c.c_void_p()
first, second = (cupti.cuptiSubscribe(c.byref(at), None, None) for _ in range(2))
ok(cupti.cuptiUnsubscribe(at))
print(json.dumps([first, second, cupti.cuptiSubscribe(c.byref(at), None, None)]))
""",
    )
    assert (first, third) == (0, 0)
    assert second != 0
