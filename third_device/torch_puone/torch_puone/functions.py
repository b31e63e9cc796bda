"""What ``torch.puone`` has in place of the layer's.

Memory is CUDA's caching allocator's, which counts it and has the pools.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

__all__ = [
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "memory_snapshot",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]

MemPool = torch.cuda.MemPool
caching_allocator_delete = torch.cuda.caching_allocator_delete
caching_allocator_enable = torch.cuda.caching_allocator_enable
get_allocator_backend = torch.cuda.get_allocator_backend
memory_snapshot = torch.cuda.memory_snapshot


def _cuda_index(device: Any = None) -> int:
    """Return the index of the CUDA device behind ``device``.

    ``device`` is an index, a device of ours, or None for the current one.
    """
    torch.cuda.init()
    index = device if isinstance(device, int) else torch.device(device or "puone").index
    return torch.puone.current_device() if index is None else index  # type: ignore[attr-defined, no-any-return]


def empty_cache() -> None:
    """Give cached memory that no tensor uses back to the driver, CUDA's own included."""
    torch.cuda.empty_cache()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return the statistics of CUDA's caching allocator.

    They are for tensors of both devices; empty before the first use. The layer's ``memory_allocated`` and those beside
    it read them.
    """
    if not torch.puone.is_initialized():  # type: ignore[attr-defined]
        return {}
    return torch.cuda.memory_stats(_cuda_index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start the peaks anew from what is held now."""
    torch.cuda.reset_peak_memory_stats(_cuda_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Start the sums and counts anew from 0."""
    torch.cuda.reset_accumulated_memory_stats(_cuda_index(device))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let CUDA's caching allocator take this share of a device's memory."""
    torch.cuda.set_per_process_memory_fraction(fraction, _cuda_index(device))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the share of a device's memory that CUDA's caching allocator may take."""
    return float(torch.cuda.get_per_process_memory_fraction(_cuda_index(device)))


def use_mem_pool(pool: torch.cuda.MemPool, device: Any = None) -> contextlib.AbstractContextManager[None]:
    """Take allocations on a device from a pool of CUDA's."""
    context: contextlib.AbstractContextManager[None] = torch.cuda.use_mem_pool(pool, _cuda_index(device))
    return context


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Return the address of ``size`` bytes of CUDA's allocator.

    ``stream`` is one of ours, or the address of CUDA's; our current one by default, which CUDA's own is not.
    """
    index = _cuda_index(device)
    if stream is None:
        stream = torch.puone.current_stream(index)  # type: ignore[attr-defined]
    return int(torch.cuda.caching_allocator_alloc(size, index, getattr(stream, "address", stream)))


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Ask CUDA for each allocation in the ``with`` block."""
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(True)
