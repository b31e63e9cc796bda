"""``torch.<name>.memory``: allocator numbers, as ``torch.cuda.memory`` has them."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _C
from .device import (
    Device,
    _index,
    _lazy_init,
    empty_cache,
    host_memory_stats,
    is_initialized,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)

__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_allocator_backend",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Return what `memory_stats` says, nested: ``["allocated_bytes"]["all"]["peak"]``.

    Empty before the driver is started.
    """
    if not is_initialized():
        return {}
    return {
        key: {"all": dict(value)} if isinstance(value, dict) else value
        for key, value in _C.memory_statistics(_index(device)).items()
    }


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return the counters of pinned memory, nested as `host_memory_stats` has them."""
    return host_memory_stats()


_ROWS = (
    ("allocated", "allocated_bytes", True),
    ("active", "active_bytes", True),
    ("requested", "requested_bytes", True),
    ("reserved", "reserved_bytes", True),
    ("allocations", "allocation", False),
    ("segments", "segment", False),
)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """Write the allocator's numbers as a table for people.

    Bytes are in MiB; counts are what ``abbreviated`` leaves out.
    """
    _lazy_init()
    index = _index(device)
    stats = memory_stats(index)
    width = 14
    lines = [
        f"memory of device {index}".ljust(20) + "".join(head.rjust(width) for head in ("now", "peak", "taken", "freed"))
    ]
    for title, key, are_bytes in _ROWS:
        if abbreviated and not are_bytes:
            continue
        values = [stats[f"{key}.all.{kind}"] for kind in ("current", "peak", "allocated", "freed")]
        cells = [f"{value / 2**20:.1f} MiB" if are_bytes else str(value) for value in values]
        lines.append(title.ljust(20) + "".join(cell.rjust(width) for cell in cells))
    lines.append(f"out of memory {stats['num_ooms']} times, tried again {stats['num_alloc_retries']} times")
    return "\n".join(lines) + "\n"


def device_memory_used(device: Device = None) -> int:
    """Return a device's bytes in use by anyone: what the driver does not call free."""
    free, total = mem_get_info(device)
    return total - free


def get_allocator_backend() -> str:
    """Which allocator is at work: ``native``, the layer's own; there is no other."""
    return "native"


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"{old} has been renamed to {new}", FutureWarning, stacklevel=3)


def memory_cached(device: Device = None) -> int:
    """Call `memory_reserved`, of which this is a deprecated name."""
    _renamed("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> int:
    """Call `max_memory_reserved`, of which this is a deprecated name."""
    _renamed("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Device = None) -> None:
    """Call `reset_peak_memory_stats`, of which this is a deprecated name."""
    _renamed("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """Call `reset_peak_memory_stats`, of which this is a deprecated name."""
    _renamed("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)
