"""Eight threads use a backend at once, for sanitizers to watch: ``python stress.py DEVICE ROUNDS``.

What the contract tests one by one happens here at the same time, on two devices: kernels, the CPU fallback with the
device's generator, copies over streams and pinned memory, events, gradients on the engine's threads, storages that
grow, and the bookkeeping of the allocators. Ends with 1 and the errors when a thread failed or found wrong bytes.
"""

from __future__ import annotations

import sys
import threading
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


SHARED: list[torch.Tensor] = []
WORK: list[Callable[[str, types.ModuleType, int], None]] = [
    operators,
    operators,
    operators,
    copies,
    copies,
    gradients,
    gradients,
    bookkeeping,
]


def main(name: str, rounds: int) -> int:
    mod = getattr(torch, name)
    SHARED.extend(torch.randn(64, 64, device=f"{name}:{index}") for index in (0, 1))
    mod.synchronize()
    together = threading.Barrier(len(WORK))
    errors: list[str] = []

    def repeat(work: Callable[[str, types.ModuleType, int], None]) -> None:
        together.wait()
        try:
            for number in range(rounds):
                work(name, mod, number)
        except Exception as error:
            errors.append(f"{work.__name__}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=repeat, args=(work,)) for work in WORK]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write("\n".join(errors) or f"{rounds} rounds\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
