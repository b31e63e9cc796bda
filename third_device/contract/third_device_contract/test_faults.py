"""Faults, for drivers that can inject them: what users must see, and that the process goes on."""

from __future__ import annotations

import threading
import types

import pytest
import torch

from third_device_contract.plugin import Knob, Run

LOST = """
import torch
torch.NAME._driver_control("lose_device", 1)
try:
    torch.ones(4, device="NAME:1").cpu()
except RuntimeError as error:
    assert "lost" in str(error), error
else:
    raise SystemExit("work on a lost device succeeded")
held = torch.ones(3, device="NAME:0")
assert held.sum().item() == 3
print("fine")
"""


@pytest.mark.contract_item(22)
def test_a_lost_device_is_told_and_others_go_on(python: Run, name: str, mod: types.ModuleType, two: None) -> None:
    if not hasattr(mod, "_driver_control"):
        pytest.skip("this backend has no _driver_control to inject faults with")
    done = python(LOST.replace("NAME", name))
    if "unknown key" in done.stderr:
        pytest.skip("this driver has no knob 'lose_device'")
    assert done.returncode == 0 and "fine" in done.stdout, done.stderr


@pytest.mark.contract_item(22)
def test_a_refused_allocation_is_tried_again(name: str, mod: types.ModuleType, knob: Knob) -> None:
    mod.empty_cache()
    knob("fail_allocations", 1)
    before = mod.memory_stats()["num_alloc_retries"]
    assert torch.ones(1 << 20, device=name).sum().item() == 1 << 20
    assert mod.memory_stats()["num_alloc_retries"] == before + 1


@pytest.mark.contract_item(23)
def test_eight_threads_share_the_allocator(name: str, mod: types.ModuleType) -> None:
    wrong: list[str] = []

    def work(mark: int) -> None:
        with mod.stream(mod.Stream()):
            for size in range(1, 60):
                tensor = torch.full((size * 37,), float(mark), device=name)
                other = tensor.clone()
                if not bool((other.cpu() == mark).all()):
                    wrong.append(f"thread {mark} found another's bytes at size {size}")

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
