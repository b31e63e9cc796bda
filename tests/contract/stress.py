"""Eight threads use a backend at once, for sanitizers to watch: ``python stress.py DEVICE ROUNDS [faults]``.

What the contract tests one by one happens here at the same time, on two devices: kernels, the CPU fallback with the
device's generator, copies over streams and pinned memory, events, gradients on the engine's threads, storages that
grow, and the bookkeeping of the allocators. With ``faults`` memory runs out, kernels throw and the second device is
lost and comes back meanwhile. Ends with 1 and the errors when a thread failed for another reason.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import types
from collections.abc import Callable

import torch


def operators(name: str, mod: types.ModuleType, number: int) -> None:
    """Kernels, and what falls back to the CPU, on tensors that all threads read."""
    for shared in SHARED:
        product = (shared @ shared).relu()
        assert product.add(1).sum().item() > 0
        torch.nn.functional.dropout(shared).sin()
        torch.rand(50, device=shared.device)
        assert sorted(torch.randperm(7, device=shared.device).tolist()) == list(range(7))
        assert torch.equal(shared.t().contiguous().cpu(), shared.cpu().t())
        assert shared[:, ::2].clone().shape == (64, 32)


def copies(name: str, mod: types.ModuleType, number: int) -> None:
    """From pinned memory to one device, to the other and back, on a stream; the bytes in between are freed early."""
    near, far = number % 2, 1 - number % 2
    host, back = torch.rand(300 + number).pin_memory(), torch.empty(300 + number, pin_memory=True)
    stream = mod.Stream(device=near)
    with mod.stream(stream):
        first = host.to(f"{name}:{near}", non_blocking=True)
        second = first.to(f"{name}:{far}", non_blocking=True)
        back.copy_(second, non_blocking=True)
        first.record_stream(mod.default_stream(near))
        event = mod.Event(enable_timing=True)
        event.record()
    mod.default_stream(far).wait_event(event)
    del first, second
    event.synchronize()
    mod.synchronize(far)
    assert event.query() and torch.equal(host, back)


def gradients(name: str, mod: types.ModuleType, number: int) -> None:
    """Backward through both devices, whose engine threads all callers share, and through an operator of the backend."""
    near, far = (torch.randn(8, 8, device=f"{name}:{index}", requires_grad=True) for index in (0, 1))
    ((near @ near).to(far.device) + (far @ far).relu()).sum().backward()
    custom = getattr(getattr(torch.ops, name, None), "swish", torch.nn.functional.silu)
    custom(near).sum().backward()
    assert near.grad is not None and far.grad is not None


def bookkeeping(name: str, mod: types.ModuleType, number: int) -> None:
    """Statistics and caches while the others allocate, seeds while they draw, and a storage that changes its size."""
    for index in (0, 1):
        assert mod.memory_stats(index)["allocation.all.current"] > 0
        mod.get_rng_state(index)
    mod.empty_cache()
    mod.reset_peak_memory_stats()
    torch.accelerator.empty_cache()
    mod.manual_seed_all(number)
    assert not torch.empty(3).is_pinned()
    storage = torch.empty(10, device=name).untyped_storage()
    storage.resize_(4096 * (number % 5))
    mod.synchronize()


def faults(name: str, mod: types.ModuleType, number: int) -> None:
    """One fault after the other, each for a moment; what it does not undo itself, `mend` does."""
    knobs = [("fail_allocations", 2), ("fail_calls", 1), ("copy_delay_us", 2000), ("memory_bytes", 4 << 20)]
    mod._driver_control(*knobs[number % len(knobs)])
    time.sleep(0.02)
    mend(mod)
    mod._driver_control("lose_device", 1)
    time.sleep(0.02)
    mend(mod)


def mend(mod: types.ModuleType) -> None:
    """Turn all faults off."""
    for key, value in (("fail_allocations", 0), ("fail_calls", 0), ("copy_delay_us", 0), ("memory_bytes", 1 << 30)):
        mod._driver_control(key, value)
    mod._driver_control("restore_device", 1)


#: what an error says that a fault of `faults` has caused
INJECTED = ("out of memory", "was lost", "failed on request")

Work = Callable[[str, types.ModuleType, int], None]
SHARED: list[torch.Tensor] = []
WORK: list[Work] = [
    operators,
    operators,
    operators,
    copies,
    copies,
    gradients,
    gradients,
    bookkeeping,
]


def main(name: str, rounds: int, with_faults: bool) -> int:
    mod = getattr(torch, name)
    work = [*WORK, faults] if with_faults else WORK
    SHARED.extend(torch.randn(64, 64, device=f"{name}:{index}") for index in (0, 1))
    mod.synchronize()
    together = threading.Barrier(len(work))
    errors: list[str] = []

    def repeat(task: Work) -> None:
        together.wait()
        for number in range(rounds):
            try:
                task(name, mod, number)
            except Exception as error:
                # A failure is told once, to whoever synchronises next: then another thread finds its work not done.
                known = isinstance(error, AssertionError) or any(text in str(error) for text in INJECTED)
                if not (with_faults and known):
                    errors.append(f"{task.__name__}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=repeat, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if with_faults:
        for index in (0, 1):
            with contextlib.suppress(RuntimeError):  # the last failure, if nobody was told yet
                mod.synchronize(index)
    if torch.ones(3, device=f"{name}:1").sum().item() != 3:
        errors.append("the second device does not work afterwards")
    sys.stdout.write("\n".join(errors) or f"{rounds} rounds\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), "faults" in sys.argv[3:]))
