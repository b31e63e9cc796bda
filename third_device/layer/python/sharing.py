"""Device memory in the queues of ``torch.multiprocessing``.

Its bytes travel through the host. The driver hands out no memory that two processes can map, so the receiver gets a
copy and not the same memory.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing

from .._build_info import NAME

_usual = ForkingPickler._extra_reducers[torch.UntypedStorage]  # type: ignore[attr-defined]


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)  # type: ignore[call-overload, no-any-return]


def _rebuild(host: torch.UntypedStorage, device: str) -> torch.UntypedStorage:
    return _bytes(host).to(device).untyped_storage()


def _reduce(storage: torch.UntypedStorage) -> Any:
    if storage.device.type != NAME:
        return _usual(storage)
    return _rebuild, (_bytes(storage).cpu().untyped_storage(), str(storage.device))


def register() -> None:
    """Let storages of the device through; those of other devices go as before.

    A second call changes nothing.
    """
    ForkingPickler.register(torch.UntypedStorage, _reduce)
