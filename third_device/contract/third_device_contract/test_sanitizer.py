"""Item 17: work of two streams that nothing orders is found, and nothing else is."""

from __future__ import annotations

import types

import pytest

from third_device_contract.plugin import Run

START = """
import sys, torch
assert "torch.cuda._sanitizer" not in sys.modules, "who does not ask pays nothing"
mod, device = torch.NAME, "NAME"

def race(work):
    try:
        with mod.sanitizer():
            work()
    except RuntimeError as error:
        return str(error)
    return ""
"""


@pytest.fixture(autouse=True)
def _has_sanitizer(mod: types.ModuleType) -> None:
    if not hasattr(mod, "sanitizer"):
        pytest.skip("this backend has no sanitizer()")


def run(python: Run, name: str, code: str) -> None:
    """Run ``code`` in a process of its own: what PyTorch's trace activates stays."""
    done = python((START + code).replace("NAME", name))
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(17)
def test_a_race_between_two_streams_is_found_and_named(python: Run, name: str) -> None:
    run(
        python,
        name,
        """
side = mod.Stream()

def use(order):
    tensor = torch.zeros(4, device=device)
    tensor.mul_(2)
    order()
    with mod.stream(side):
        tensor.add_(1)
    if order is not nothing:
        mod.current_stream().wait_stream(side)

def nothing():
    pass

def by_event():
    event = mod.Event()
    event.record()
    side.wait_event(event)

def by_an_event_on_the_host():
    event = mod.Event()
    event.record()
    event.synchronize()

def forgotten():  # of a stream that has nothing to do with it
    mod.Stream().synchronize()

said = race(lambda: use(nothing))
streams = (f"stream 0 of {device}:0", f"stream {side.stream_id} of {device}:0")
for part in ("aten::mul_", "aten::add_", *streams, "wait_stream"):
    assert part in said, (part, said)
assert "aten::add_" in race(lambda: use(forgotten))
orders = (lambda: side.wait_stream(mod.current_stream()), by_event, by_an_event_on_the_host, mod.synchronize)
for order in (*orders, lambda: mod.current_stream().synchronize(), torch.accelerator.synchronize):
    said = race(lambda: use(order))
    assert said == "", said
use(nothing)  # nobody watches
""",
    )


@pytest.mark.contract_item(17)
def test_a_write_after_a_read_and_a_read_after_a_write(python: Run, name: str) -> None:
    run(
        python,
        name,
        """
side = mod.Stream()
tensor = torch.ones(4, device=device)
mod.synchronize()

def read_there_write_here():
    with mod.stream(side):
        tensor.clone()
    tensor.zero_()

def write_here_read_there():
    tensor.zero_()
    with mod.stream(side):
        tensor.sum()

def read_twice():
    tensor.clone()
    with mod.stream(side):
        tensor.clone()
        tensor.view(2, 2)

assert "aten::zero_" in race(read_there_write_here)
assert "aten::sum" in race(write_here_read_there)
assert race(read_twice) == ""
""",
    )


@pytest.mark.contract_item(17)
def test_what_is_ordered_raises_nothing(python: Run, name: str, two: None) -> None:
    """Train, copy between two devices, use memory again: no report."""
    run(
        python,
        name,
        """
def train():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    side = mod.Stream()
    for step in range(3):
        with mod.stream(side):
            batch = torch.randn(16, 4).pin_memory().to(device, non_blocking=True)
        mod.current_stream().wait_stream(side)
        batch.record_stream(mod.current_stream())
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        side.wait_stream(mod.current_stream())
    assert all(each.isfinite().all() for each in model.parameters())

def go_between():
    near = torch.ones(4, device=f"{device}:0")
    far = near.to(f"{device}:1")
    near.add_(1)
    far.add_(1)
    near.copy_(far)
    assert near.tolist() == [2] * 4

def use_again():
    side = mod.Stream()
    for _ in range(3):
        torch.zeros(4, device=device)
        mod.empty_cache()  # then the driver may give another stream the same address
        with mod.stream(side):
            torch.zeros(4, device=device)
        mod.empty_cache()

def give_a_part_back():
    side = mod.Stream()
    with mod.stream(side):
        batch = torch.ones(1024, device=device)
    mod.current_stream().wait_stream(side)
    batch[512:].clone()
    batch.record_stream(mod.current_stream())
    address = batch.data_ptr()
    del batch
    while not mod.current_stream().query():
        pass
    with mod.stream(side):
        again = torch.ones(1024, device=device)
        assert again.data_ptr() == address, "not the same memory: nothing was tried"
        again[512:].zero_()

for work in (train, go_between, use_again, give_a_part_back):
    said = race(work)
    assert said == "", said
""",
    )


@pytest.mark.contract_item(17)
def test_a_whole_program_is_watched_when_the_environment_asks(python: Run, name: str) -> None:
    code = """
import torch
tensor = torch.zeros(4, device="NAME")
with torch.NAME.stream(torch.NAME.Stream()):
    tensor.add_(1)
""".replace("NAME", name)
    variable = f"TORCH_{name.upper()}_SANITIZER"
    done = python(code, env={variable: "1"})
    assert done.returncode != 0 and "RaceError" in done.stderr and "aten::add_" in done.stderr, done.stderr
    for value in ("", "0"):
        more = "import sys\nassert 'torch.cuda._sanitizer' not in sys.modules"
        done = python(code + more, env={variable: value})
        assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(17)
def test_an_exception_that_frees_memory_stays_what_it_is(python: Run, name: str) -> None:
    """What is told of memory asks Python, and an exception is on its way there."""
    run(
        python,
        name,
        """
def fail():
    return torch.ones(4, device=device).add_(int("x"))

with mod.sanitizer():
    for _ in range(3):
        try:
            fail()
        except ValueError as error:
            assert "'x'" in str(error)
        else:
            raise AssertionError("it ended well")
""",
    )


@pytest.mark.contract_item(17)
def test_who_asks_is_told_until_nobody_asks(python: Run, name: str) -> None:
    run(
        python,
        name,
        """
torch._C._activate_gpu_trace()
trace, told = mod._gpu_trace, []
tensor = torch.ones(4, device=device)
trace.register_callback_for_memory_allocation(told.append)
tensor.clone()
assert len(told) == 1, told
trace.MemoryAllocationCallbacks.remove_callback(told.append)
tensor.clone()
assert len(told) == 1, told
kinds = {}
for registry in trace.ALL:
    registry.add_callback(lambda *given, name=registry.name: kinds.setdefault(name, given))
event = mod.Event()
event.record()
mod.Stream().wait_event(event)
event.synchronize()
mod.current_stream().synchronize()
mod.synchronize()
del event
tensor.clone()
assert set(kinds) == {each.name for each in trace.ALL}, sorted(kinds)
assert kinds[trace.EventRecordCallbacks.name][1] == mod.current_stream().address
""",
    )
