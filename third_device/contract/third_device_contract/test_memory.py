"""Items 22 to 31 and 66: memory of the device.

They are about allocators, random numbers, storages, copies, views, pools.
"""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from third_device_contract.plugin import Gap, Knob, Run

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int8,
    torch.bool,
    torch.complex64,
]


@pytest.mark.contract_item(22)
def test_zero_bytes_and_free(name: str, mod: types.ModuleType) -> None:
    gc.collect()
    before = mod.memory_allocated()
    empty = torch.empty(0, device=name)
    assert empty.numel() == 0 and mod.memory_allocated() == before
    held = torch.empty(1000, device=name)
    assert mod.memory_allocated() >= before + 4000
    del held
    assert mod.memory_allocated() == before


@pytest.mark.contract_item(22)
def test_out_of_memory_tells_numbers(name: str, mod: types.ModuleType) -> None:
    wanted = mod.get_device_properties(0).total_memory + 12345
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(wanted, dtype=torch.uint8, device=name)
    assert str(wanted) in str(caught.value) and str(mod.get_device_properties(0).total_memory) in str(caught.value)
    assert torch.ones(2, device=name).sum().item() == 2


@pytest.mark.contract_item(22)
def test_memory_can_run_out_and_come_back(name: str, mod: types.ModuleType, knob: Knob) -> None:
    mod.empty_cache()
    gc.collect()
    knob("memory_bytes", 64 << 20)
    held = []
    with pytest.raises(torch.OutOfMemoryError):
        for _ in range(100):
            held.append(torch.empty(4 << 20, dtype=torch.uint8, device=name))
    assert 10 <= len(held) <= 16
    del held
    assert torch.empty(48 << 20, dtype=torch.uint8, device=name).numel() == 48 << 20


@pytest.mark.contract_item(23)
def test_memory_is_cached(name: str, mod: types.ModuleType) -> None:
    size = 24 << 20  # bytes: too large to share a segment with what other tests hold
    mod.synchronize()
    mod.empty_cache()
    first = torch.empty(size, dtype=torch.uint8, device=name)
    address = first.data_ptr()
    del first
    reserved = mod.memory_reserved()
    assert reserved >= size
    again = torch.empty(size, dtype=torch.uint8, device=name)
    assert again.data_ptr() == address and mod.memory_reserved() == reserved
    del again
    mod.empty_cache()
    assert mod.memory_reserved() <= reserved - size


@pytest.mark.contract_item(23)
def test_statistics_balance(name: str, mod: types.ModuleType) -> None:
    gc.collect()
    mod.reset_peak_memory_stats()
    before = mod.memory_stats()
    tensors = [torch.empty(size, device=name) for size in (10, 3000, 700000, 4_000_000)]
    peak = mod.max_memory_allocated()
    del tensors
    after = mod.memory_stats()
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert after["allocation.all.current"] == before["allocation.all.current"]
    assert peak - before["allocated_bytes.all.current"] >= 4 * 4_703_010
    made = after["allocated_bytes.all.allocated"] - before["allocated_bytes.all.allocated"]
    assert made == after["allocated_bytes.all.freed"] - before["allocated_bytes.all.freed"] > 0


@pytest.mark.contract_item(24)
def test_record_stream_holds_memory(name: str, mod: types.ModuleType) -> None:
    side = mod.Stream()
    tensor = torch.ones(3000, device=name)
    mod.synchronize()
    address = tensor.data_ptr()
    if not hasattr(mod, "_sleep"):
        pytest.skip("this backend has no _sleep(milliseconds, stream)")
    mod._sleep(300, side)
    tensor.record_stream(side)
    del tensor
    early = torch.empty(3000, device=name)
    assert early.data_ptr() != address
    mod.synchronize()
    late = [torch.empty(3000, device=name) for _ in range(3)]
    assert address in [one.data_ptr() for one in late]


@pytest.mark.contract_item(25)
def test_pinned_memory(name: str, mod: types.ModuleType) -> None:
    pageable = torch.arange(1000.0)
    assert not pageable.is_pinned()
    pinned = pageable.pin_memory()
    assert pinned.is_pinned() and torch.equal(pinned, pageable)
    assert pinned[10:20].is_pinned() and pinned.view(10, 100)[3].is_pinned()
    assert not torch.empty(5, device=name).is_pinned()
    there = pinned.to(name, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(there, non_blocking=True)
    mod.synchronize()
    assert torch.equal(back, pageable)
    del pinned, back
    assert torch.equal(there.cpu(), pageable)


@pytest.mark.contract_item(25)
def test_factories_make_pinned_memory(name: str, gap: Gap) -> None:
    try:
        made = torch.empty(5, pin_memory=True)
        found = made.is_pinned()
    except RuntimeError:  # of a CUDA that has a device and no memory
        if not torch.cuda.is_available():
            raise
        found = False
    if not found and torch.cuda.is_available():
        gap("pinned-beside-cuda")
    assert found
    assert torch.equal(made.fill_(3).to(name, non_blocking=True).cpu(), torch.full((5,), 3.0))


@pytest.mark.contract_item(25)
def test_pinned_memory_is_kept_until_copied(name: str, mod: types.ModuleType) -> None:
    side = mod.Stream()
    if not hasattr(mod, "_sleep"):
        pytest.skip("this backend has no _sleep(milliseconds, stream)")
    source = torch.full((2000,), 3.0).pin_memory()
    address = source.data_ptr()
    target = torch.zeros(2000, device=name)
    mod.synchronize()
    with mod.stream(side):
        mod._sleep(300, side)
        target.copy_(source, non_blocking=True)
    del source
    other = torch.full((2000,), 9.0).pin_memory()
    assert other.data_ptr() != address
    side.synchronize()
    assert target.cpu().eq(3).all()


@pytest.mark.contract_item(25)
def test_dataloader_pins(name: str) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(12.0).view(6, 2))
    loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    batches = [batch for (batch,) in loader]
    if not batches[0].is_pinned():  # 2.6 pins for CUDA unless told (torch/utils/data/dataloader.py: pin_memory_device)
        loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, pin_memory_device=name)
        batches = [batch for (batch,) in loader]
    assert len(batches) == 3 and all(batch.is_pinned() for batch in batches)
    assert torch.cat([batch.to(name, non_blocking=True) for batch in batches]).cpu().sum().item() == 66


@pytest.mark.contract_item(26)
def test_the_host_cannot_read_device_memory(python: Run, name: str) -> None:
    code = f"""
import ctypes, torch
tensor = torch.ones(16, device="{name}")
torch.{name}.synchronize()
print("before", flush=True)
ctypes.string_at(tensor.data_ptr(), 4)
print("after", flush=True)
"""
    done = python(code)
    assert "before" in done.stdout, done.stderr
    assert done.returncode < 0 and "after" not in done.stdout


# The driver is not started by Python here, but by pinned memory, which PyTorch asks for in C++.
SEED_BEFORE_FIRST_USE = """
import torch
torch.manual_seed(7)
torch.empty(3, pin_memory=True)
first = torch.rand(50, device="NAME").cpu()
torch.manual_seed(7)
assert torch.equal(torch.rand(50, device="NAME").cpu(), first), "the first seed was lost"
"""


@pytest.mark.contract_item(27)
def test_generators(name: str, mod: types.ModuleType, python: Run) -> None:
    torch.manual_seed(7)
    first = torch.rand(50, device=name)
    assert first.cpu().unique().numel() > 40
    torch.manual_seed(7)
    assert torch.equal(torch.rand(50, device=name).cpu(), first.cpu())
    mod.manual_seed(8)
    assert not torch.equal(torch.rand(50, device=name).cpu(), first.cpu()) and mod.initial_seed() == 8
    generator = torch.Generator(device=name)
    assert generator.device.type == name
    draws = [torch.randn(20, device=name, generator=generator.manual_seed(3)).cpu() for _ in range(2)]
    assert torch.equal(*draws)
    torch.manual_seed(9)
    dropped = [torch.nn.functional.dropout(torch.ones(200, device=name)).cpu()]
    torch.manual_seed(9)
    dropped.append(torch.nn.functional.dropout(torch.ones(200, device=name)).cpu())
    assert torch.equal(*dropped) and 20 < dropped[0].count_nonzero() < 180
    done = python(SEED_BEFORE_FIRST_USE.replace("NAME", name))
    assert done.returncode == 0, done.stderr


@pytest.mark.contract_item(27)
def test_generators_are_apart(name: str, mod: types.ModuleType, two: None) -> None:
    mod.manual_seed_all(5)
    first = torch.rand(10, device=f"{name}:0").cpu()
    torch.rand(10, device=f"{name}:0")
    assert torch.equal(torch.rand(10, device=f"{name}:1").cpu(), first)
    state = torch.get_rng_state()
    torch.rand(10, device=name)
    torch.nn.functional.dropout(torch.ones(9, device=name))
    assert torch.equal(torch.get_rng_state(), state)
    assert len(mod.default_generators) == mod.device_count()


@pytest.mark.contract_item(27)
def test_generators_are_apart_between_threads(name: str, mod: types.ModuleType, two: None) -> None:
    """Draw on two devices in two threads.

    A device's numbers come of its own seed, and the CPU's stay, while another thread draws on another device.
    """

    def draw(device: str) -> list[torch.Tensor]:
        ones = torch.ones(200, device=device)
        return [torch.nn.functional.dropout(ones) for _ in range(100)]

    mod.manual_seed_all(5)
    expected = torch.stack(draw(f"{name}:0")).cpu()
    state = torch.get_rng_state()
    mod.manual_seed_all(5)
    drawn: dict[str, list[torch.Tensor]] = {}
    threads = [
        threading.Thread(target=lambda device=f"{name}:{index}": drawn.update({device: draw(device)}))
        for index in (0, 1)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.get_rng_state(), state)
    assert len(drawn) == 2 and all(torch.equal(torch.stack(each).cpu(), expected) for each in drawn.values())


@pytest.mark.contract_item(27)
def test_dropout_leaves_the_cpu_s_generator_alone(name: str) -> None:
    """Also while it runs: another thread's seed, and what that draws, are its own."""
    ones = torch.ones(200_000, device=name)
    ended = threading.Event()

    def repeat_dropout() -> None:
        while not ended.is_set():
            torch.nn.functional.dropout(ones)

    thread = threading.Thread(target=repeat_dropout)
    thread.start()
    drawn = []
    try:
        for _ in range(20):
            torch.default_generator.manual_seed(5)
            time.sleep(0.005)
            drawn.append(torch.rand(3).tolist())
    finally:
        ended.set()
        thread.join()
    torch.default_generator.manual_seed(5)
    assert drawn == [torch.rand(3).tolist()] * len(drawn)


@pytest.mark.contract_item(27)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_dropout_returns_its_mask(name: str, dtype: torch.dtype) -> None:
    host = torch.arange(1.0, 101.0).to(dtype).view(10, 10).t()
    for chance in (0.0, 0.5, 1.0):
        there = host.to(name).requires_grad_()
        dropped, mask = torch.ops.aten.native_dropout(there, chance, True)
        assert mask.dtype == torch.bool and mask.device == there.device
        scale = 1 / (1 - chance) if chance < 1 else 0
        assert torch.equal(dropped.cpu(), host * mask.cpu() * scale)
        dropped.sum().backward()
        assert torch.equal(there.grad.cpu(), mask.cpu().to(dtype) * scale)
        assert chance == 0.5 or mask.cpu().all() == (chance == 0.0)
    kept, mask = torch.ops.aten.native_dropout(host.to(name), 0.5, False)
    assert torch.equal(kept.cpu(), host) and mask.all().item()


@pytest.mark.contract_item(28)
def test_rng_state(name: str, mod: types.ModuleType) -> None:
    state = mod.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8
    first = torch.rand(5, device=name).cpu()
    mod.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=name).cpu(), first)
    numbers = list(range(mod.device_count()))

    def draw_numbers() -> list[list[float]]:
        return [torch.rand(5, device=f"{name}:{number}").tolist() for number in numbers]

    torch.rand(3, device=f"{name}:{numbers[-1]}")  # so that no device is where another one is
    states = mod.get_rng_state_all()
    drawn = draw_numbers()
    mod.set_rng_state_all(states)
    assert draw_numbers() == drawn
    with torch.random.fork_rng(devices=numbers, device_type=name):
        inside = draw_numbers()
        draw_numbers()
    assert draw_numbers() == inside


RANDOM_CALLS_BEFORE_FIRST_USE = {
    "a seed": "torch.NAME.set_rng_state(STATE); torch.NAME.manual_seed(7)",
    "a seed of all": "torch.NAME.set_rng_state(STATE); torch.manual_seed(7)",
    "a generator": "torch.manual_seed(8); torch.NAME.default_generators[0].manual_seed(7)",
    "a state": "torch.NAME.manual_seed(8); torch.NAME.set_rng_state(SEVEN)",
}


@pytest.mark.contract_item(28)
@pytest.mark.parametrize("last", RANDOM_CALLS_BEFORE_FIRST_USE)
def test_the_last_of_the_random_calls_before_the_first_use_counts(
    name: str, mod: types.ModuleType, python: Run, last: str
) -> None:
    """The calls wait until the driver starts, and are then made in their order."""
    state = f"torch.tensor({mod.get_rng_state().tolist()}, dtype=torch.uint8)"
    seven = f"torch.Generator('{name}').manual_seed(7).get_state()"
    calls = RANDOM_CALLS_BEFORE_FIRST_USE[last].replace("STATE", state).replace("SEVEN", seven).replace("NAME", name)
    drawn = f"torch.rand(50, device='{name}').tolist()"
    done = python(f"import torch\n{calls}\nprint({drawn})\ntorch.{name}.manual_seed(7)\nprint({drawn})")
    assert done.returncode == 0, done.stderr
    first, again = done.stdout.splitlines()
    assert first == again


@pytest.mark.contract_item(53)
def test_a_generator_is_a_seed_and_an_offset(name: str, mod: types.ModuleType) -> None:
    """Check that a generator's state is 16 bytes, as CUDA has them.

    DTensor uses them. Every call goes on behind the last one's numbers.
    """
    generator = torch.Generator(device=name).manual_seed(2**40 + 7)
    state = generator.get_state()
    assert state.dtype == torch.uint8 and state.view(torch.int64).tolist() == [2**40 + 7, 0]
    first = torch.rand(100, device=name, generator=generator).cpu()
    offset = int(generator.get_state().view(torch.int64)[1])
    assert offset > 0 and offset % 4 == 0
    second = torch.rand(100, device=name, generator=generator).cpu()
    assert torch.cat([first, second]).unique().numel() > 190
    generator.set_state(torch.tensor([2**40 + 7, offset]).view(torch.uint8))
    assert torch.equal(torch.rand(100, device=name, generator=generator).cpu(), second)
    generator.manual_seed(2**40 + 7)
    assert torch.equal(torch.rand(100, device=name, generator=generator).cpu(), first), "a new seed starts at offset 0"
    generator.manual_seed(7)  # the low half of the seed alone
    assert not torch.equal(torch.rand(100, device=name, generator=generator).cpu(), first)
    with pytest.raises(RuntimeError, match="16 bytes"):
        generator.set_state(torch.get_rng_state())  # of the CPU
    twin = copy.deepcopy(generator) if hasattr(generator, "clone_state") else generator
    assert torch.equal(twin.get_state(), generator.get_state())


@pytest.mark.contract_item(53)
def test_random_numbers_are_spread_as_they_should_be(name: str) -> None:
    """Check mean, variance and correlation of many short calls.

    Each of them starts from a place of its own.
    """
    torch.manual_seed(11)
    calls = torch.stack([torch.rand(64, device=name).cpu() for _ in range(400)])
    assert abs(calls.mean() - 0.5) < 0.01 and abs(calls.var() - 1 / 12) < 0.005
    assert calls.unique().numel() > 0.99 * calls.numel()
    for lag in (1, 2, 16):  # between calls, element by element
        assert abs(torch.corrcoef(torch.stack([calls[lag:].flatten(), calls[:-lag].flatten()]))[0, 1]) < 0.03
    normal = torch.stack([torch.randn(33, device=name).cpu() for _ in range(400)])
    assert abs(normal.mean()) < 0.03 and abs(normal.var() - 1) < 0.05


@pytest.mark.contract_item(29)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_making_and_reshaping(name: str, dtype: torch.dtype) -> None:
    strided = torch.empty_strided((3, 4), (1, 3), dtype=dtype, device=name)
    assert strided.stride() == (1, 3) and strided.dtype == dtype
    assert strided.untyped_storage().nbytes() == 12 * dtype.itemsize
    host = torch.arange(24).to(dtype).view(2, 3, 4)
    there = host.to(name)
    assert torch.equal(there.as_strided((2, 2), (12, 1), 5).cpu(), host.as_strided((2, 2), (12, 1), 5))
    grown = host.to(name).resize_(5, 10)
    assert grown.shape == (5, 10) and torch.equal(grown.cpu().view(-1)[:24], host.view(-1))
    view = torch.empty(0, dtype=dtype, device=name)
    view.set_(there.untyped_storage(), 4, (2, 3), (6, 2))
    assert torch.equal(view.cpu(), host.as_strided((2, 3), (6, 2), 4))
    view.set_(there)
    assert view.is_set_to(there) and torch.equal(view.cpu(), host)
    assert torch.empty(2, 3, dtype=dtype, device=name).set_().numel() == 0
    image = torch.empty(1, 2, 3, 4, dtype=dtype, device=name, memory_format=torch.channels_last)
    assert image.is_contiguous(memory_format=torch.channels_last)


def _make_unwritten(device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Make tensors by functions that write nothing, where others were just before."""
    torch.full((64,), 7, dtype=dtype, device=device)
    return {
        "empty": torch.empty(64, dtype=dtype, device=device),
        "empty_strided": torch.empty_strided((4, 16), (1, 4), dtype=dtype, device=device),
        "empty_like": torch.empty_like(torch.zeros(8, 8, dtype=dtype, device=device)),
        "new_empty": torch.zeros(1, dtype=dtype, device=device).new_empty(64),
        "resize_": torch.zeros(3, dtype=dtype, device=device).resize_(64),
    }


@pytest.mark.contract_item(29)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint16, torch.float8_e4m3fn], ids=str)
def test_deterministic_algorithms_fill_what_nobody_wrote(name: str, dtype: torch.dtype) -> None:
    """By NaN, or the largest number.

    A program that reads such memory is found, and is the same in every run.
    """
    wide = torch.complex128 if dtype.is_complex else torch.float64
    torch.use_deterministic_algorithms(True)
    try:
        expected, made = _make_unwritten("cpu", dtype), _make_unwritten(name, dtype)
    finally:
        torch.use_deterministic_algorithms(False)
    for how, tensor in made.items():
        numbers = tensor.cpu().to(wide)
        torch.testing.assert_close(numbers, expected[how].to(wide), rtol=0, atol=0, equal_nan=True, msg=how)


@pytest.mark.contract_item(29)
def test_storages_are_set_on_a_device_that_is_not_current(name: str, two: None) -> None:
    there = torch.arange(4.0, device=f"{name}:1")
    view = torch.empty(0, device=there.device)
    assert view.set_(there.untyped_storage(), 1, (2,), (1,)).tolist() == [1, 2]
    emptied = there.set_()
    assert emptied is there and emptied.numel() == 0 and emptied.untyped_storage().device.index == 1
    assert view.tolist() == [1, 2]


@pytest.mark.contract_item(29)
def test_storage_resize(name: str) -> None:
    tensor = torch.arange(4.0).to(name)
    storage = tensor.untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64 and tensor.cpu().tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        storage.resize_(-1)
    assert storage.nbytes() == 64 and tensor.cpu().tolist() == [0, 1, 2, 3]
    storage.resize_(0)
    assert storage.nbytes() == 0


@pytest.mark.contract_item(30)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_copies(name: str, dtype: torch.dtype, mod: types.ModuleType) -> None:
    host = torch.arange(60).to(dtype).view(3, 4, 5)
    there = host.to(name)
    forms: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "whole": lambda t: t,
        "transposed": lambda t: t.transpose(0, 2),
        "strided": lambda t: t[:, ::2, 1:],
        "expanded": lambda t: t[:1].expand(3, 4, 5),
        "one": lambda t: t[1, 2],
    }
    for (a, take), (b, put) in itertools.product(forms.items(), forms.items()):
        source, expected = take(host), torch.zeros(3, 4, 5).to(dtype)
        if b == "expanded" or source.shape != put(expected).shape:
            continue
        put(expected).copy_(source)  # all of it is compared: what lies between a view's elements stays as it was
        near = torch.zeros(3, 4, 5).to(dtype).to(name)
        put(near).copy_(take(there))
        assert torch.equal(near.cpu(), expected), f"{a} to {b} on the device"
        near = torch.zeros(3, 4, 5).to(dtype).to(name)
        put(near).copy_(source)
        assert torch.equal(near.cpu(), expected), f"{a} to {b} from the host"
        back = torch.zeros(3, 4, 5).to(dtype)
        put(back).copy_(take(there))
        assert torch.equal(back, expected), f"{a} to {b} to the host"
    assert torch.equal(there.to(torch.float64 if not dtype.is_complex else torch.complex128).cpu().to(dtype), host)
    if mod.device_count() > 1:
        far = there.to(f"{name}:1")
        assert far.device.index == 1 and torch.equal(far.cpu(), host)
        far.zero_()
        assert torch.equal(there.cpu(), host)
        assert torch.equal(far.copy_(there.transpose(0, 2).contiguous().transpose(0, 2)).cpu(), host)


@pytest.mark.contract_item(30)
def test_a_copy_does_not_read_what_it_writes(name: str, mod: types.ModuleType) -> None:
    """As on the CPU: of bytes that overlap a driver makes anything.

    A copy of elements onto themselves is none.
    """
    line = torch.arange(6.0, device=name)
    for source, target in (
        (line[:-1], line[1:]),
        (line[1:], line[:-1]),
        (line[2:3], line[:4]),
        (line.view(torch.int32)[:-1], line[1:]),
        (torch.ones(3, device=name), torch.zeros(1, device=name).expand(3)),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            target.copy_(source)
    assert line.tolist() == [0, 1, 2, 3, 4, 5]
    line[:3].copy_(line[3:])
    assert line.tolist() == [3, 4, 5, 3, 4, 5]
    table = torch.zeros(3, 4, device=name)
    if hasattr(mod, "set_sync_debug_mode"):
        mod.set_sync_debug_mode("error")
    try:
        table[:, 1].copy_(table[:, 1])
    finally:
        if hasattr(mod, "set_sync_debug_mode"):
            mod.set_sync_debug_mode("default")
    table[:, 1] += 1
    assert table.tolist() == [[0, 1, 0, 0]] * 3


@pytest.mark.contract_item(30)
def test_conjugate_copies(name: str) -> None:
    host = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(host.to(name).conj().cpu(), host.conj())
    assert torch.equal(host.conj().to(name).cpu(), host.conj())
    assert torch.equal(host.to(name).conj().imag.cpu(), host.conj().imag)


@pytest.mark.contract_item(30)
def test_non_blocking_copies(name: str, mod: types.ModuleType) -> None:
    source = torch.rand(100_000).pin_memory()
    side = mod.Stream()
    with mod.stream(side):
        there = source.to(name, non_blocking=True)
        back = there.to("cpu", non_blocking=True)
    side.synchronize()
    assert torch.equal(back, source)
    pageable = torch.rand(1000)
    there = pageable.to(name, non_blocking=True)
    kept = pageable.clone()
    pageable.zero_()
    assert torch.equal(there.cpu(), kept)


@pytest.mark.contract_item(31)
def test_views_alias(name: str) -> None:
    base = torch.zeros(4, 6, device=name)
    views = [
        base.view(24),
        base[1:, ::2],
        base.t(),
        base.unfold(1, 2, 2),
        base.reshape(2, 12),
        base.narrow(0, 1, 2),
        base.unsqueeze(0),
        base.expand(2, 4, 6),
        base.detach(),
        base.diagonal(),
        base.permute(1, 0),
        base[2],
    ]
    for view in views:
        assert view._is_view() or view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert view.untyped_storage()._cdata == base.untyped_storage()._cdata
    base.view(24)[7] = 5
    assert base[1, 1].item() == 5 and views[2][1, 1].item() == 5
    views[1].add_(1)
    assert base.cpu().tolist() == [
        [0, 0, 0, 0, 0, 0],
        [1, 5, 1, 0, 1, 0],
        [1, 0, 1, 0, 1, 0],
        [1, 0, 1, 0, 1, 0],
    ]
    pairs = torch.zeros(3, 2, device=name)
    torch.view_as_complex(pairs)[1] = 2 + 3j
    assert pairs.cpu()[1].tolist() == [2, 3]
    assert torch.view_as_real(torch.view_as_complex(pairs)).data_ptr() == pairs.data_ptr()
    assert base.view(torch.int32).data_ptr() == base.data_ptr()
    parts = base.split(2)
    parts[0].fill_(4)
    assert base[0, 0].item() == 4


@pytest.mark.contract_item(22)
def test_a_share_of_the_memory_is_all_that_is_taken(name: str, mod: types.ModuleType) -> None:
    mod.empty_cache()
    total = mod.mem_get_info()[1]
    assert mod.get_per_process_memory_fraction() == 1
    held = mod.memory_reserved()
    mod.set_per_process_memory_fraction((held + (64 << 20)) / total)
    try:
        kept = torch.empty(40 << 20, dtype=torch.uint8, device=name)
        with pytest.raises(torch.OutOfMemoryError, match="which may take"):
            torch.empty(40 << 20, dtype=torch.uint8, device=name)
        del kept
        torch.empty(50 << 20, dtype=torch.uint8, device=name)  # what is cached is given back first
        with pytest.raises(RuntimeError, match="0 to 1"):
            mod.set_per_process_memory_fraction(1.5)
    finally:
        mod.set_per_process_memory_fraction(1)
    torch.empty(80 << 20, dtype=torch.uint8, device=name)


@pytest.mark.contract_item(66)
def test_a_pool_of_its_own_or_the_reason_why_not(name: str, mod: types.ModuleType) -> None:
    """Allocate inside a pool: it goes back with the pool.

    A backend whose cache has no pools says so by name.
    """
    if not hasattr(mod, "MemPool"):
        for missing in ("MemPool", "use_mem_pool"):
            with pytest.raises(AttributeError, match=f"torch.{name}.*'{missing}': .+") as caught:
                getattr(mod, missing)
            assert "\n" not in str(caught.value)
        return
    pool = mod.MemPool()
    with mod.use_mem_pool(pool):
        inside = torch.empty(24 << 20, dtype=torch.uint8, device=name)
    held = mod.memory_reserved()
    del inside, pool
    mod.empty_cache()
    assert mod.memory_reserved() <= held - (24 << 20)


def require_names(mod: types.ModuleType, *names: str) -> None:
    """Skip a test of what this device has not; item 71 asks for the reasons."""
    missing = [one for one in names if not hasattr(mod, one)]
    if missing:
        pytest.skip(f"optional: this backend has no {', '.join(missing)}")


@pytest.mark.contract_item(66)
def test_blocks_of_a_pool_serve_no_others(name: str, mod: types.ModuleType) -> None:
    require_names(mod, "MemPool")
    mod.synchronize()
    mod.empty_cache()
    pool = mod.MemPool()
    elsewhere: list[torch.Tensor] = []
    with mod.use_mem_pool(pool):
        assert pool.use_count() == 2
        inside = [torch.empty(3000, device=name) for _ in range(2)]
        other = threading.Thread(target=lambda: elsewhere.append(torch.empty(3000, device=name)))
        other.start()
        other.join()
    assert pool.use_count() == 1
    (segment,) = pool.snapshot()
    first, second = (one.data_ptr() for one in inside)
    ours = range(segment["address"], segment["address"] + segment["total_size"])
    assert first in ours and second in ours and elsewhere[0].data_ptr() not in ours
    assert segment["segment_pool_id"] == pool.id and mod.memory_snapshot(pool.id) == [segment]
    del inside
    assert torch.empty(3000, device=name).data_ptr() not in ours
    mod.empty_cache()
    assert pool.snapshot()[0]["address"] == segment["address"], "the memory of a pool stays with it"
    with mod.use_mem_pool(pool):
        kept = torch.full((3000,), 7.0, device=name)
    assert kept.data_ptr() in (first, second)
    name_of_the_pool = pool.id
    del pool
    gc.collect()
    assert mod.memory_snapshot(name_of_the_pool) == []
    mod.empty_cache()
    assert kept.eq(7).all(), "a tensor may outlive its pool"
    for wrong in ({"use_on_oom": True}, {"no_split": True}):
        with pytest.raises(NotImplementedError, match=r"say MemPool\(\)"):
            mod.MemPool(**wrong)


@pytest.mark.contract_item(66)
def test_a_pool_is_left_whatever_happens(name: str, mod: types.ModuleType) -> None:
    require_names(mod, "MemPool")
    outer, inner = mod.MemPool(), mod.MemPool()

    def pool_of(tensor: torch.Tensor) -> tuple[int, int]:
        (found,) = (
            segment["segment_pool_id"]
            for segment in mod.memory_snapshot()
            if segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]
        )
        first, second = found
        return first, second

    with mod.use_mem_pool(outer):
        with pytest.raises(torch.OutOfMemoryError), mod.use_mem_pool(inner):
            torch.empty(2 * mod.mem_get_info()[1], dtype=torch.uint8, device=name)
        assert pool_of(torch.empty(9, device=name)) == outer.id
        with mod.use_mem_pool(inner):
            assert pool_of(torch.empty(9, device=name)) == inner.id
        with mod.stream(mod.Stream()):
            assert pool_of(torch.empty(9, device=name)) == outer.id
    assert pool_of(torch.empty(9, device=name)) not in (outer.id, inner.id)
    if mod.device_count() > 1:
        with mod.use_mem_pool(outer, device=1):
            far = torch.empty(9, device=f"{name}:1")
        assert {segment["device"] for segment in outer.snapshot()} == {0, 1}
        del far


@pytest.mark.contract_item(23)
def test_a_snapshot_has_every_block(name: str, mod: types.ModuleType) -> None:
    require_names(mod, "memory_snapshot")
    mod.synchronize()
    held = [torch.empty(size, dtype=torch.uint8, device=name) for size in (100, 5000, 3 << 20, 24 << 20)]
    segments = [segment for segment in mod.memory_snapshot() if segment["device"] == 0]
    stats = mod.memory_stats(0)
    for key, sums in (("total_size", "reserved"), ("allocated_size", "allocated"), ("active_size", "active")):
        assert sum(segment[key] for segment in segments) == stats[f"{sums}_bytes.all.current"]
    assert len(segments) == stats["segment.all.current"]
    blocks = {block["address"]: block for segment in segments for block in segment["blocks"]}
    for tensor in held:
        block = blocks[tensor.data_ptr()]
        assert block["state"] == "active_allocated" and block["requested_size"] == tensor.numel() <= block["size"]
    for segment in segments:
        addresses = itertools.accumulate((block["size"] for block in segment["blocks"]), initial=segment["address"])
        assert [block["address"] for block in segment["blocks"]] == list(addresses)[:-1]
        assert segment["segment_type"] in ("small", "large") and segment["total_size"] > 0
    if hasattr(mod, "_sleep"):
        side = mod.Stream()
        mod._sleep(200, side)
        held[0].record_stream(side)
        address = held.pop(0).data_ptr()
        states = [block["state"] for s in mod.memory_snapshot() for block in s["blocks"] if block["address"] == address]
        assert states == ["active_pending_free"]
        mod.synchronize()


@pytest.mark.contract_item(23)
def test_upstream_s_viewer_reads_a_snapshot(name: str, mod: types.ModuleType, tmp_path: Path) -> None:
    require_names(mod, "memory_snapshot")
    from torch.cuda import _memory_viz as viewer

    mod.memory._record_memory_history(max_entries=50, clear_history=True)
    try:
        held = torch.empty(24 << 20, dtype=torch.uint8, device=name)
        address = held.data_ptr()
        del held
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2 * mod.mem_get_info()[1], dtype=torch.uint8, device=name)
    finally:
        mod.memory._record_memory_history(None)
    torch.empty(7, device=name)  # no step any more
    mod.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    data = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    steps = data["device_traces"][0]
    of_it = [step["action"] for step in steps if step.get("addr") == address]
    assert [one for one in of_it if "segment" not in one] == ["alloc", "free_requested", "free_completed"]
    assert any(step["action"] == "oom" and step["device_free"] > 0 for step in steps) and len(steps) <= 50
    assert f"segments: {len(data['segments'])}" in viewer.segsum(data)
    assert "24.0MiB" in viewer.trace(data) and "OutOfMemoryError" in viewer.trace(data)
    assert "snapshot" in viewer.trace_plot(data)
    mod.memory._record_memory_history(None, clear_history=True)
    assert mod.memory._snapshot()["device_traces"][0] == []


@pytest.mark.contract_item(22)
def test_memory_for_others(name: str, mod: types.ModuleType) -> None:
    require_names(mod, "caching_allocator_alloc")
    before = mod.memory_allocated()
    side = mod.Stream()
    for stream in (None, side, 0):
        address = mod.caching_allocator_alloc(5000, 0, stream)
        assert address > 0 and mod.memory_allocated() >= before + 5000
        mod.caching_allocator_delete(address)
        assert mod.memory_allocated() == before
    with pytest.raises(TypeError, match="stream"):
        mod.caching_allocator_alloc(5000, stream="side")
    with pytest.raises(torch.OutOfMemoryError):
        mod.caching_allocator_alloc(2 * mod.mem_get_info()[1])


@pytest.mark.contract_item(22)
def test_a_cache_can_be_done_without(name: str, mod: types.ModuleType) -> None:
    require_names(mod, "caching_allocator_disabled")
    mod.synchronize()
    gc.collect()
    mod.empty_cache()
    before = mod.memory_reserved()
    with mod.caching_allocator_disabled():
        held = torch.ones(3000, device=name)
        assert before < mod.memory_reserved() < before + (1 << 20)
        assert held.sum().item() == 3000
        del held
        assert mod.memory_reserved() == before
    del_later = torch.ones(3000, device=name)
    reserved = mod.memory_reserved()
    del del_later
    assert mod.memory_reserved() == reserved


@pytest.mark.contract_item(25)
def test_peaks_of_pinned_memory(mod: types.ModuleType) -> None:
    require_names(mod, "reset_peak_host_memory_stats")
    torch.empty(1 << 20).pin_memory()
    gc.collect()
    mod.reset_peak_host_memory_stats()
    before = mod.host_memory_stats()["allocated_bytes"]
    assert before["peak"] == before["current"]
    held = torch.empty(2 << 20).pin_memory()
    during = mod.host_memory_stats()["allocated_bytes"]
    assert during["peak"] == before["current"] + held.nbytes and during["allocated"] > 0
    mod.reset_accumulated_host_memory_stats()
    assert mod.host_memory_stats()["allocated_bytes"]["allocated"] == 0
