"""A driver in Python: copy it to ``torch_acme/driver.py``.

The memory of these devices is bytes of this process.
An address is a block's number and a place in it, so that nobody can use one without asking the driver.
"""

from __future__ import annotations

import ctypes
import itertools

__all__ = ["copy", "device_count", "device_properties", "memory_alloc", "memory_free"]

HOST = -1
MEMORY = 1 << 30  # bytes of each device
PLACE = 40  # bits of an address that are the place in a block

_numbers = itertools.count(1)
_blocks: dict[int, bytearray] = {}


def device_count() -> int:
    """Two, as the simulation has."""
    return 2


def device_properties(device: int) -> dict[str, str | int]:
    """Return what ``torch.acme.get_device_properties`` tells."""
    return {"name": f"Python's device {device}", "total_memory": MEMORY}


def memory_alloc(device: int, size: int) -> int:
    """Return the address of new memory; a MemoryError becomes torch.OutOfMemoryError."""
    number = next(_numbers)
    _blocks[number] = bytearray(size)
    return number << PLACE


def memory_free(device: int, address: int) -> None:
    """Give back what memory_alloc made."""
    del _blocks[address >> PLACE]


def copy(to: int, to_device: int, source: int, from_device: int, size: int) -> None:
    """Copy adjacent bytes, on a stream's thread, which the caller does not wait for."""
    ctypes.memmove(_bytes_at(to, to_device, size), _bytes_at(source, from_device, size), size)


def _bytes_at(address: int, device: int, size: int) -> ctypes.Array[ctypes.c_char] | int:
    if device == HOST:
        return address
    place = address & ((1 << PLACE) - 1)
    return (ctypes.c_char * size).from_buffer(_blocks[address >> PLACE], place)
