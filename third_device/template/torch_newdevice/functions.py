"""Functions of your own: ``__all__`` names those that ``torch.newdevice`` gets.

A name that the layer has is replaced, in ``torch.newdevice.memory`` and its like, too; yours may call the layer's, as
``replaced.empty_cache()`` with ``from ._layer import replaced``. This begins with those for the examples of
csrc/extensions.cpp.
"""

from __future__ import annotations

import torch

__all__ = ["get_tiling", "largest_request", "set_tiling", "times_resized"]

_ops = torch.ops.newdevice


def set_tiling(tensor: torch.Tensor, rows: int, columns: int) -> None:
    """Note the tiles in which the device keeps a tensor; saved and loaded with it."""
    _ops.set_tiling(tensor, rows, columns)


def get_tiling(tensor: torch.Tensor) -> tuple[int, ...]:
    """Rows and columns of a tile; empty where none is known."""
    return tuple(_ops.tiling(tensor))


def times_resized(tensor: torch.Tensor) -> int:
    """How often the storage of a tensor was resized."""
    return int(_ops.times_resized(tensor))


def largest_request() -> int:
    """Return the size of the largest allocation so far, in bytes."""
    return int(_ops.largest_request())
