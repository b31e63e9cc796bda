"""Items 10 to 21 and 65: devices, streams, events, graphs."""

from __future__ import annotations

import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from third_device_contract.plugin import Run

BUSY = 300  # milliseconds a stream is kept busy; long against a call, short for a test


def busy(mod: types.ModuleType, stream: torch.Stream) -> None:
    """Keep a stream busy, or skip where a backend cannot."""
    if not hasattr(mod, "_sleep"):
        pytest.skip("this backend has no _sleep(milliseconds, stream) to keep a stream busy with")
    mod._sleep(BUSY, stream)


@pytest.mark.contract_item(10)
def test_init_is_lazy_and_once(mod: types.ModuleType) -> None:
    mod.init()
    assert mod.is_initialized()
    mod.init()
    assert not mod._is_in_bad_fork()


@pytest.mark.contract_item(11)
def test_fork_is_refused(python: Run, name: str) -> None:
    code = f"""
import os, torch
torch.ones(1, device="{name}")
child = os.fork()
if child == 0:
    try:
        torch.ones(1, device="{name}")
    except RuntimeError as error:
        os._exit(7 if "fork" in str(error) and "spawn" in str(error) else 1)
    os._exit(2)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert torch.ones(2, device="{name}").sum().item() == 2, "the parent has lost its device"
raise SystemExit(code)
"""
    done = python(code)
    assert done.returncode == 7, done.stderr


@pytest.mark.contract_item(12)
def test_invalid_indices_raise(name: str, mod: types.ModuleType) -> None:
    count = mod.device_count()
    with pytest.raises(RuntimeError):
        mod.set_device(count)
    with pytest.raises(RuntimeError):
        torch.empty(1, device=f"{name}:{count}")
    with pytest.raises(RuntimeError):
        mod.synchronize(count + 5)
    for of_device in (mod.current_stream, mod.default_stream):
        with pytest.raises(RuntimeError):
            of_device(count)
    with pytest.raises((RuntimeError, ValueError)):
        mod.set_device("cpu")
    assert mod.current_device() == 0


@pytest.mark.contract_item(13)
def test_guards_restore(name: str, mod: types.ModuleType, two: None) -> None:
    with mod.device(1):
        assert mod.current_device() == 1
        assert torch.empty(1, device=name).device.index == 1
        with mod.device(None), mod.device(-1):
            assert mod.current_device() == 1
    assert mod.current_device() == 0
    with pytest.raises(ZeroDivisionError), mod.device(1):
        raise ZeroDivisionError
    assert mod.current_device() == 0
    with mod.device_of(torch.empty(1, device=f"{name}:1")):
        assert mod.current_device() == 1
    torch.ones(3, device=f"{name}:1").add(1)
    assert mod.current_device() == 0


@pytest.mark.contract_item(14)
def test_current_device_is_per_thread(mod: types.ModuleType, two: None) -> None:
    seen: list[int] = []

    def other() -> None:
        seen.append(mod.current_device())
        mod.set_device(1)
        seen.append(mod.current_device())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, 1] and mod.current_device() == 0


@pytest.mark.contract_item(15)
def test_accelerator_is_this_device(name: str, mod: types.ModuleType) -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device(name)
    assert torch.accelerator.device_count() == mod.device_count()
    index = getattr(torch.accelerator, "current_device_index", None) or torch.accelerator.current_device_idx
    assert index() == mod.current_device()
    assert torch.accelerator.current_stream().device.type == name
    torch.accelerator.synchronize()
    if hasattr(torch.accelerator, "memory_stats"):
        held = torch.ones(1000, device=name)
        assert torch.accelerator.memory_allocated() >= held.nbytes
        torch.accelerator.empty_cache()


@pytest.mark.contract_item(16)
def test_kinds_of_streams(name: str, mod: types.ModuleType) -> None:
    default = mod.default_stream()
    assert mod.current_stream() == default and default.stream_id == 0
    first, second = mod.Stream(), mod.Stream()
    assert first != second and first != default and first.device == torch.device(name, 0)
    high = mod.Stream(priority=-1)
    assert high not in (first, second, default)
    with mod.stream(first):
        assert mod.current_stream() == first
        with mod.stream(second):
            assert mod.current_stream() == second
        assert mod.current_stream() == first
    assert mod.current_stream() == default
    mod.set_stream(None)
    assert mod.current_stream() == default
    generic = torch.Stream(device=name)
    assert generic.device.type == name and generic.query()
    seen = []
    with mod.stream(first):
        thread = threading.Thread(target=lambda: seen.append(mod.current_stream()))
        thread.start()
        thread.join()
    assert seen == [default]


@pytest.mark.contract_item(16)
def test_streams_come_from_a_pool(name: str, mod: types.ModuleType) -> None:
    """Make one stream per step: the program must not run out of them.

    A driver's streams are few and dear.
    """
    made = [mod.Stream() for _ in range(300)]
    assert 1 < len({stream.stream_id for stream in made}) < 300
    urgent = {mod.Stream(priority=-1).stream_id for _ in range(300)}
    assert not urgent & {stream.stream_id for stream in made}
    with mod.stream(made[-1]):
        assert torch.ones(2, device=name).sum().item() == 2


@pytest.mark.contract_item(17)
def test_order_within_and_across_streams(name: str, mod: types.ModuleType) -> None:
    first, second = mod.Stream(), mod.Stream()
    target = torch.zeros(4, device=name)
    source = torch.ones(4, device=name)
    mod.synchronize()
    with mod.stream(first):
        busy(mod, first)
        target.copy_(source)  # after the pause, in the stream's order
    with mod.stream(second):
        early = target.clone()  # not ordered after it
        second.synchronize()
    assert early.cpu().tolist() == [0, 0, 0, 0]
    second.wait_stream(first)
    with mod.stream(second):
        late = target.clone()
        second.synchronize()
    assert late.cpu().tolist() == [1, 1, 1, 1]


@pytest.mark.contract_item(18)
def test_events(name: str, mod: types.ModuleType) -> None:
    stream = mod.Stream()
    event = torch.Event(device=name)
    assert event.query()
    busy(mod, stream)
    event.record(stream)
    assert not event.query()
    other = mod.Stream()
    other.wait_event(event)
    assert not other.query()
    began = time.monotonic()
    event.synchronize()
    assert time.monotonic() - began > BUSY / 2000 and event.query()
    other.synchronize()
    own = mod.Event(enable_timing=True)
    own.record()
    own.synchronize()
    assert own.query() and own.device.type == name
    recorded = stream.record_event()
    recorded.wait(other)
    other.synchronize()


@pytest.mark.contract_item(19)
def test_elapsed_time(name: str, mod: types.ModuleType) -> None:
    stream = mod.Stream()
    start, end = mod.Event(enable_timing=True), mod.Event(enable_timing=True)
    start.record(stream)
    busy(mod, stream)
    end.record(stream)
    with pytest.raises(RuntimeError):
        start.elapsed_time(end)
    end.synchronize()
    assert BUSY * 0.5 < start.elapsed_time(end) < BUSY * 100
    untimed = torch.Event(device=name, enable_timing=False)
    untimed.record(stream)
    untimed.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(untimed)


@pytest.mark.contract_item(20)
def test_wait_stream_across_devices(name: str, mod: types.ModuleType, two: None) -> None:
    near, far = mod.Stream(device=0), mod.Stream(device=1)
    busy(mod, near)
    far.wait_stream(near)
    assert not far.query()
    far.synchronize()
    assert near.query() and far.query()


@pytest.mark.contract_item(21)
def test_query_of_a_blocked_stream(mod: types.ModuleType) -> None:
    stream = mod.Stream()
    assert stream.query()
    busy(mod, stream)
    assert not stream.query()
    stream.synchronize()
    assert stream.query()


@pytest.mark.contract_item(16)
def test_a_stream_that_somebody_else_made(name: str, mod: types.ModuleType) -> None:
    """By its address: work on it is ordered with the work of its maker."""
    theirs = mod.Stream()
    ours = mod.ExternalStream(theirs.address)
    assert isinstance(ours, mod.Stream) and ours.address == theirs.address and ours.stream_id != theirs.stream_id
    assert mod.get_stream_from_external(theirs.address, f"{name}:0") == ours
    mod._sleep(50, theirs)
    assert not ours.query()
    with mod.stream(ours):
        assert mod.current_stream().address == theirs.address
        made = torch.ones(4, device=name) + 1
        made.record_stream(theirs)
    ours.synchronize()
    assert theirs.query() and made.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="null"):
        mod.ExternalStream(0)


@pytest.mark.contract_item(65)
def test_graphs_replay_or_are_refused(name: str, mod: types.ModuleType) -> None:
    """Capture work and run it again on what is there then.

    A device without graphs says so where one is made.
    """
    graphs: Callable[[], Any] | None = getattr(torch.accelerator, "Graph", None)
    if graphs is None:  # before 2.13: torch.<dev> has graphs of its own, or says why not
        if not hasattr(mod, "graph"):
            with pytest.raises(AttributeError, match=f"torch.{name}.*'graph': .+"):
                _ = mod.graph
        return
    try:
        graph = graphs()
    except RuntimeError as error:
        assert str(error).splitlines()[0].endswith(name), error  # "... is not supported on device type: acme"
        with pytest.raises(AttributeError, match=r"'graph': .+"):
            _ = mod.graph
        assert not mod.is_current_stream_capturing()
        return
    counter = torch.zeros(4, device=name)
    with torch.Stream(name), graph:
        counter += 1
    for _ in range(3):
        graph.replay()
    mod.synchronize()
    assert counter.cpu().tolist() == [3] * 4
