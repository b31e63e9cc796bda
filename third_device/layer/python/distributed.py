"""The backend's name in ``torch.distributed``: collectives that go through the host to Gloo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .. import _C
from .._build_info import NAME

BACKEND = f"{NAME}_host"


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    return _C.host_staged_backend(dist.ProcessGroupGloo(store, rank, size, timeout))


def register() -> None:
    """Make it known, and the default for tensors of this device; a second call changes nothing."""
    if hasattr(dist, "ProcessGroupGloo") and BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create, devices=[NAME])
