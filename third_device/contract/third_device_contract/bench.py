"""Measure what a backend costs beside plain CPU tensors.

It runs by ``python -m third_device_contract.bench --device NAME``.

Every figure is a ratio of two measurements of one run (device over CPU; below 1 the device is faster), each the best of
several repetitions, so that a busy machine disturbs little. On a simulated device they tell the cost of the layer, not
of any hardware.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch

REPEATS = 7


def best(work: Callable[[], object], calls: int, done: Callable[[], object] = lambda: None) -> float:
    """Return the best seconds per call; ``done`` waits for what ``work`` enqueued."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        done()
        times.append((time.perf_counter() - began) / calls)
    return min(times)


def measure(device: str) -> dict[str, float]:
    """Name of the measurement -> ratio to the CPU."""
    wait = torch.get_device_module(device).synchronize
    small, there = torch.ones(8), torch.ones(8, device=device)
    large = torch.ones(16 << 20, dtype=torch.uint8)
    pinned, far = large.pin_memory(), large.to(device)
    target = torch.empty_like(large)
    host_copy = best(lambda: target.copy_(large), 5)
    return {
        "view (no kernel)": best(lambda: there.view(2, 4), 500) / best(lambda: small.view(2, 4), 500),
        "add with a kernel, enqueued": best(lambda: there + there, 200, wait) / best(lambda: small + small, 200),
        "sin by fallback": best(lambda: there.sin(), 50, wait) / best(lambda: small.sin(), 50),
        "empty, 4 KiB": best(lambda: torch.empty(1024, device=device), 500) / best(lambda: torch.empty(1024), 500),
        "empty, 16 MiB": best(lambda: torch.empty(4 << 20, device=device), 100)
        / best(lambda: torch.empty(4 << 20), 100),
        "copy 16 MiB to the device, pinned": best(lambda: far.copy_(pinned, non_blocking=True), 5, wait) / host_copy,
        "copy 16 MiB to the device, pageable": best(lambda: far.copy_(large), 5, wait) / host_copy,
        "copy 16 MiB on the device": best(lambda: far.clone(), 5, wait) / best(lambda: large.clone(), 5),
    }


def main() -> None:
    """Print the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", required=True, metavar="NAME")
    device: str = parser.parse_args().device
    ratios = {name: round(ratio, 2) for name, ratio in measure(device).items()}
    print(json.dumps({"device": device, "torch": torch.__version__, "ratio to the CPU": ratios}, indent=2))


if __name__ == "__main__":
    main()
