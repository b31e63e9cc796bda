"""Items 10 to 21 and 65: devices, streams, events, graphs."""

from __future__ import annotations

import gc
import importlib
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from third_device_contract.plugin import Run, tell_missing_kernel

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


# Whoever finds the driver started may not find undone what was put off until then.
SECOND_THREAD = """
import threading, torch
begun, go, done = threading.Event(), threading.Event(), []

def put_off():
    begun.set()
    go.wait(60)
    done.append("put off")

torch.NAME._lazy_call(put_off)
first = threading.Thread(target=torch.NAME.init)
second = threading.Thread(target=lambda: (torch.NAME.init(), done.append("second")))
first.start()
begun.wait(60)
second.start()
second.join(1)
assert not done
go.set()
first.join()
second.join()
assert done == ["put off", "second"], done
"""


@pytest.mark.contract_item(10)
def test_another_thread_waits_for_what_was_put_off(name: str, mod: types.ModuleType, python: Run) -> None:
    if not hasattr(mod, "_lazy_call"):
        pytest.skip("this backend has no _lazy_call(function)")
    done = python(SECOND_THREAD.replace("NAME", name))
    assert done.returncode == 0, done.stderr


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
    if mod.device_count() > 1:
        choose = getattr(torch.accelerator, "set_device_index", None) or torch.accelerator.set_device_idx
        with mod.device(1):
            assert index() == 1 and torch.accelerator.current_stream().device.index == 1
            choose(0)
            assert mod.current_device() == 0
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
    first, second, third = (torch.full((4,), float(number), device=name) for number in range(3))
    with torch.Stream(name), graph:
        first.copy_(second)  # copies of the driver, here and below: a backend may have no kernel yet
        second.copy_(third)
    for expected in (0, 1, 2):
        assert first.cpu().tolist() == [expected] * 4
        graph.replay()
        mod.synchronize()


@pytest.fixture
def graphs(mod: types.ModuleType) -> None:
    """Skips a test where the driver has no graphs."""
    if not hasattr(mod, "graph"):
        pytest.skip("optional: this driver has no graphs")


def make_mlp(device: str) -> torch.nn.Sequential:
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 3, bias=False)
    return torch.nn.Sequential(*layers).to(device)


def take_step(model: torch.nn.Sequential, inputs: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Train by operators that the template has kernels for."""
    outputs: torch.Tensor = model(inputs)
    outputs.backward(gradient)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(parameter.grad, alpha=-0.1)
            parameter.grad = None
    return outputs


def require_step(name: str, mod: types.ModuleType) -> None:
    """Skip a graph of `take_step` where a part of it runs on the CPU."""
    model, inputs, gradient = make_mlp(name), torch.ones(8, 6, device=name), torch.ones(8, 3, device=name)
    missing = tell_missing_kernel(mod, lambda: take_step(model, inputs, gradient))
    if missing:
        pytest.skip(f"no graph of a training step: {missing}; list it in operators.yaml")


@pytest.mark.contract_item(65)
def test_a_training_step_is_a_graph(name: str, mod: types.ModuleType, graphs: None) -> None:
    """Replay forward, backward and update on new inputs: they equal the CPU's."""
    require_step(name, mod)
    model, reference = make_mlp(name), make_mlp("cpu")
    inputs, gradient = torch.randn(8, 6), torch.randn(8, 3)
    static, given = inputs.to(name), gradient.to(name)
    with mod.stream(mod.Stream()):
        take_step(model, static, given)
    take_step(reference, inputs, gradient)
    graph = mod.Graph()
    with mod.no_fallback(), mod.graph(graph):
        assert mod.is_current_stream_capturing()
        outputs = take_step(model, static, given)
    assert not mod.is_current_stream_capturing()
    torch.testing.assert_close(model[0].weight.cpu(), reference[0].weight)  # a capture runs nothing
    for _ in range(4):
        inputs, gradient = torch.randn(8, 6), torch.randn(8, 3)
        static.copy_(inputs)
        given.copy_(gradient)
        graph.replay()
        torch.testing.assert_close(outputs.cpu(), take_step(reference, inputs, gradient))
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.contract_item(65)
def test_streams_that_events_join_are_in_the_graph(name: str, mod: types.ModuleType, graphs: None) -> None:
    first, side = mod.Stream(), mod.Stream()
    x = torch.ones(4, device=name)
    graph = mod.Graph()
    with mod.graph(graph, stream=first):
        y = x.clone()
        side.wait_stream(first)
        with mod.stream(side):
            assert mod.is_current_stream_capturing()
            z = y.clone()
        first.wait_stream(side)
        last = z.clone()
    x.fill_(3.0)
    graph.replay()
    assert last.tolist() == [3] * 4
    with pytest.raises(RuntimeError, match="does not wait for"), mod.graph(mod.Graph(), stream=first):
        side.wait_stream(first)
        with mod.stream(side):
            y = x.clone()


@pytest.mark.contract_item(65)
def test_memory_of_a_graph_stays_its_own(name: str, mod: types.ModuleType, graphs: None) -> None:
    """Nobody else gets what its replays write to; graphs of one pool share."""
    stream = mod.Stream()
    x = torch.ones(1000, device=name)
    graph, second = mod.Graph(), mod.Graph()
    with mod.graph(graph, stream=stream):
        result = x.clone()
        place = x.clone().data_ptr()
    mod.empty_cache()
    with mod.stream(stream):
        held = [torch.zeros(1000, device=name) for _ in range(20)]
    assert place not in [each.data_ptr() for each in held]
    graph.replay()
    mod.synchronize()
    assert all(each.sum().item() == 0 for each in held)
    with mod.graph(second, pool=graph.pool(), stream=stream):
        assert x.clone().data_ptr() == place
    assert second.pool() == graph.pool() != mod.graph_pool_handle()
    graph.reset()
    with pytest.raises(RuntimeError, match="nothing to replay"):
        graph.replay()
    assert result.sum().item() == 1000
    if not hasattr(mod, "MemPool"):
        return
    pool = mod.MemPool()
    known_as = pool.id
    with mod.graph(graph, pool=known_as, stream=stream):
        between = x.clone()  # which asks for no kernel of the backend's
        result = between.clone()
        del between
    segments = mod.memory_snapshot(known_as)
    del pool
    gc.collect()
    mod.empty_cache()
    assert mod.memory_snapshot(known_as) == segments != [], "replays write to it, whoever holds the pool"
    x.fill_(3.0)
    graph.replay()
    assert result.sum().item() == 3000


@pytest.mark.contract_item(65)
@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (
            lambda x: torch.ops.contract_host.halve(x),
            NotImplementedError,
            "_host::halve'.*captured.*the CPU fallback waits",
        ),
        (lambda x: torch.nn.functional.conv1d(x[None], x[None, None]), NotImplementedError, "'aten::convolution'"),
        (lambda x: torch.rand(4, device=x.device), RuntimeError, "'aten::.*uniform|cannot have random numbers"),
        (lambda x: x.cpu(), RuntimeError, "a copy that waits for the device"),
        (lambda x: x[0].item(), RuntimeError, "a copy that waits for the device"),
        (lambda x: x.copy_(torch.ones(4)), RuntimeError, "a copy that waits for the device"),
    ],
    ids=["no kernel", "convolution", "rand", "cpu", "item", "copy"],
)
def test_what_a_graph_cannot_have_is_named(
    name: str,
    mod: types.ModuleType,
    graphs: None,
    host_only_operator: None,
    call: Callable[[torch.Tensor], Any],
    kind: type,
    said: str,
) -> None:
    """It ends the capture, which is no graph then, even if the program goes on."""
    x = torch.ones(4, device=name)
    if kind is NotImplementedError and not tell_missing_kernel(mod, lambda: call(x)):
        pytest.skip("optional: this backend has a kernel for it, which a graph can have")
    graph = mod.Graph()
    with pytest.raises(kind, match=said), mod.graph(graph):
        call(x)
    with pytest.raises(RuntimeError, match="nothing to replay"):
        graph.replay()
    with pytest.raises(RuntimeError, match="there is no graph, its capture"), mod.graph(graph), pytest.raises(kind):
        call(x)
    with mod.graph(graph):
        y = x.clone()
    graph.replay()
    assert y.tolist() == [1] * 4


@pytest.mark.contract_item(65)
def test_who_waits_for_a_captured_stream_ends_it(name: str, mod: types.ModuleType, graphs: None) -> None:
    stream, event = mod.Stream(), mod.Event()
    torch.ones(4, device=name)
    waiting: list[Callable[[], Any]] = [
        stream.query,
        stream.synchronize,
        mod.synchronize,
        event.query,
        event.synchronize,
    ]
    for wait in waiting:
        with pytest.raises(RuntimeError, match="its capture"), mod.graph(mod.Graph(), stream=stream):
            event.record(stream)
            with pytest.raises(RuntimeError, match="captured"):
                wait()
            assert not mod.is_current_stream_capturing()
        mod.synchronize()
    with pytest.raises(RuntimeError, match="default stream"):
        mod.Graph().capture_begin()
    with pytest.raises(RuntimeError, match="one at a time"), mod.graph(mod.Graph(), stream=stream):
        mod.Graph().capture_begin()


@pytest.mark.contract_item(65)
def test_a_graph_captures_what_another_thread_does_on_its_stream(
    name: str, mod: types.ModuleType, graphs: None, host_only_operator: None
) -> None:
    """Other streams go on meanwhile, the CPU fallback and waiting included."""
    stream, done = mod.Stream(), []
    x = torch.ones(4, device=name)
    graph = mod.Graph()

    def work() -> None:
        done.append((torch.ops.contract_host.halve(x).cpu() + x.cpu()).tolist())
        mod.current_stream().synchronize()
        with mod.stream(stream):
            done.append(x.clone())

    with mod.graph(graph, stream=stream):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    x.fill_(2.0)
    graph.replay()
    assert done[0] == [1.5] * 4 and done[1].tolist() == [2] * 4


@pytest.mark.contract_item(65)
def test_callables_are_graphed(name: str, mod: types.ModuleType, graphs: None) -> None:
    """A module, and a function of two tensors, train by replays as before."""
    require_step(name, mod)
    model, reference = make_mlp(name), make_mlp("cpu")
    sample = torch.randn(8, 6, device=name, requires_grad=True)
    graphed = mod.make_graphed_callables(model, (sample,))
    assert graphed is model and importlib.import_module(f"torch.{name}.graphs") is mod.graphs
    for _ in range(3):
        inputs, gradient = torch.randn(8, 6), torch.randn(8, 3)
        x, y = inputs.to(name).requires_grad_(), inputs.clone().requires_grad_()
        outputs, expected = graphed(x), reference(y)
        outputs.backward(gradient.to(name))
        expected.backward(gradient)
        torch.testing.assert_close(outputs.cpu(), expected)
        torch.testing.assert_close(x.grad.cpu(), y.grad)
        torch.testing.assert_close(model[0].weight.grad.cpu(), reference[0].weight.grad)
    model.eval()
    assert graphed(torch.ones(1, 6, device=name)).shape == (1, 3), "in the other mode it takes any size, as before"

    def multiply_and_add(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a * b, (a + b).detach()

    a, b = (torch.ones(4, device=name, requires_grad=True) for _ in range(2))
    twice = mod.make_graphed_callables((multiply_and_add, multiply_and_add), ((a, b), (a, b)))
    product, total = twice[1](torch.full((4,), 2.0, device=name), b)
    assert product.tolist() == [2] * 4 and total.tolist() == [3] * 4 and not total.requires_grad


@pytest.mark.contract_item(65)
def test_what_only_cuda_s_graphs_have_is_refused(name: str, mod: types.ModuleType, graphs: None) -> None:
    """Refuse, by their names, what CUDA's graphs and events have alone."""
    ones = torch.ones(4, device=name)
    with pytest.raises(NotImplementedError, match="enable_annotations"):
        mod.make_graphed_callables(torch.sin, (ones,), enable_annotations=True)
    with pytest.raises(NotImplementedError, match="check_input_liveness"):
        mod.graph(cuda_graph=mod.Graph(), check_input_liveness=True)
    mod.graph(cuda_graph=mod.Graph(), annotation_config={"nvtx": True})  # of annotations that are off
    with pytest.raises(NotImplementedError, match="external"):
        mod.Event(external=True)
