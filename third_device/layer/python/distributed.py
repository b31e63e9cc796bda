"""The backend's names in ``torch.distributed``: its own collectives, and those that go through the host to Gloo."""

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
    """Make them known; the device uses the backend's own, or else the host's. A second call changes nothing."""
    for name in _C.own_collectives():  # the first one that is registered for a device is its default
        if name not in dist.Backend.backend_list:
            dist.Backend.register_backend(name, partial(_create_own, name), devices=[NAME])
    if hasattr(dist, "ProcessGroupGloo") and BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create, devices=[NAME])
