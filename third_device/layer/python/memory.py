"""``torch.<name>.memory``: the allocator as ``torch.cuda.memory`` shows it.

Its numbers, its blocks, and pools of it.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .. import _C
from .._build_info import NAME
from .device import (
    Device,
    _index,
    _lazy_init,
    current_stream,
    device_count,
    empty_cache,
    get_per_process_memory_fraction,
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
    set_per_process_memory_fraction,
)

__all__ = [
    "MemPool",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "device_memory_used",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Return what `memory_stats` says, nested: ``["allocated_bytes"]["all"]["peak"]``.

    Empty before the driver is started.
    """
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *path, last = key.split(".")
        inner = nested
        for each in path:
            inner = inner.setdefault(each, {})
        inner[last] = value
    return nested


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


def reset_peak_host_memory_stats() -> None:
    """Start the peaks of pinned memory anew from what is held now."""
    _C.pinned_reset_peak()


def reset_accumulated_host_memory_stats() -> None:
    """Start the sums and counts of pinned memory anew from 0."""
    _C.pinned_reset_accumulated()


# --- pools ---


def _drop_pools(numbers: dict[int, int]) -> None:
    while numbers:
        _C.drop_pool(*numbers.popitem())


class MemPool:
    """A part of the cache for the allocations of a `use_mem_pool` block alone.

    When it is gone its memory is the cache's as any other. Tensors may outlive it; graphs that were captured into it
    keep its memory until they are gone. Raises NotImplementedError for an allocator of one's own, and for blocks that
    serve others or are never split.
    """

    def __init__(self, allocator: object = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        if allocator is not None or use_on_oom or no_split:
            raise NotImplementedError(
                f"a pool of the {NAME} device has no allocator of its own, serves nobody else and splits its blocks; "
                "say MemPool()"
            )
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}  # of the layer's pool on each device that it was used on
        self._uses = 0
        self._number(_index())
        weakref.finalize(self, _drop_pools, self._numbers).atexit = False

    def _number(self, index: int) -> int:
        with self._lock:
            if index not in self._numbers:
                self._numbers[index] = _C.make_pool(index)
            return self._numbers[index]

    @property
    def allocator(self) -> None:
        """The allocator of the pool's own: there is none."""
        return None

    @property
    def id(self) -> tuple[int, int]:
        """Its name among pools, as ``segment_pool_id`` of a snapshot has it.

        On the device that was current when it was made; another device has another.
        """
        with self._lock:
            return 0, next(iter(self._numbers.values()))

    def use_count(self) -> int:
        """Return how many hold it: this object, and each `use_mem_pool` block."""
        return 1 + self._uses

    def snapshot(self, include_traces: bool = True) -> list[dict[str, Any]]:
        """Return its segments on all devices, as `memory_snapshot` has them."""
        with self._lock:
            own = {(0, number) for number in self._numbers.values()}
        return [segment for segment in memory_snapshot() if segment["segment_pool_id"] in own]

    def _count(self, change: int) -> None:
        with self._lock:
            self._uses += change


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Take the allocations of this thread on a device from ``pool``.

    Threads that it starts, autograd's among them, are not in it.
    """
    index = _index(device)
    number = pool._number(index)
    _C.enter_pool(index, number)
    pool._count(1)
    try:
        yield
    finally:
        pool._count(-1)
        _C.leave_pool(index, number)


# --- blocks ---


def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """List the segments that the driver gave, with their blocks, of all devices.

    They have the keys of ``torch.cuda.memory_snapshot``. ``mempool_id`` asks for those of one pool. Blocks have no
    ``frames``.
    """
    if not is_initialized():
        return []
    found = [segment for index in range(device_count()) for segment in _C.memory_snapshot(index)]
    return [segment for segment in found if mempool_id in (None, segment["segment_pool_id"])]


def _record_memory_history(
    enabled: str | bool | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
    **more: Any,
) -> None:
    """Keep the allocator's last ``max_entries`` steps for `_snapshot`.

    None or False ends it; ``"state"`` keeps no steps. No frames are recorded, whatever ``context`` and ``stacks`` say.
    """
    kept = min(max_entries, sys.maxsize) if enabled in ("all", True) else 0
    for index in range(device_count()) if device is None else (_index(device),):
        if clear_history:
            _C.forget_history(index)
        _C.record_history(index, kept)


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Return segments and recorded steps as torch.cuda.memory._snapshot does.

    It is for ``torch.cuda._memory_viz`` and pytorch.org/memory_viz.
    """
    traces = [_C.memory_history(index) for index in range(device_count())]
    segments = memory_snapshot()
    if device is not None:
        segments = [segment for segment in segments if segment["device"] == _index(device)]
    return {"segments": segments, "device_traces": traces, "allocator_settings": {}, "external_annotations": []}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Save `_snapshot` to a file as pytorch.org/memory_viz reads it."""
    Path(filename).write_bytes(pickle.dumps(_snapshot()))


# --- memory for others ---


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | int | None = None) -> int:
    """Allocate ``size`` bytes and return their address.

    ``stream`` is one of ours or the address of a driver's, 0 for the default one. Raises OutOfMemoryError.
    """
    _lazy_init()
    index = _index(device)
    if stream is None:
        stream = current_stream(index)
    if not isinstance(stream, torch.Stream | int):
        raise TypeError(f"stream is a torch.{NAME}.Stream or the address of a driver's stream, not {stream!r}")
    if isinstance(stream, torch.Stream):
        number = stream.stream_id
    else:
        number = _C.external_stream(index, stream) if stream else 0
    return int(_C.raw_allocate(index, number, size))


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what `caching_allocator_alloc` gave."""
    _C.raw_deallocate(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Have a cache, or ask the driver for each allocation; for all devices.

    Without a cache, to free waits for the device.
    """
    _C.set_caching(value)
    if not value:
        empty_cache()


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Inside the ``with`` block each allocation is one of the driver's."""
    former = bool(_C.caching())
    caching_allocator_enable(False)
    try:
        yield
    finally:
        caching_allocator_enable(former)


# --- former names ---


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
