"""The backend's names in ``torch.distributed``.

There are its own collectives, and those that go through the host to Gloo.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import torch.distributed as dist

from .. import _C
from .._build_info import NAME

BACKEND = f"{NAME}_host"


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return _C.host_staged_backend(dist.ProcessGroupGloo(store, rank, size, timeout))


def _create_own(name: str, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    host = dist.ProcessGroupGloo(store, rank, size, timeout) if hasattr(dist, "ProcessGroupGloo") else None
    return _C.make_collectives(name, store, rank, size, int(timeout.total_seconds() * 1000), host)


def register() -> None:
    """Register the collectives in ``torch.distributed``.

    The device uses the backend's own, or else the host's. A second call changes nothing.
    """
    makers = {name: partial(_create_own, name) for name in _C.own_collectives()}
    if hasattr(dist, "ProcessGroupGloo"):
        makers[BACKEND] = _create
    for name, make in makers.items():
        if name not in dist.Backend.backend_list:
            dist.Backend.register_backend(name, make, devices=[NAME])
            # which one of several is a device's default differs between releases
            dist.Backend.default_device_backend_map[NAME] = next(iter(makers))
