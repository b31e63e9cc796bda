"""``torch.<name>.amp``: what ``torch.cuda.amp`` has, for this device."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.amp import GradScaler as _GradScaler

from .._build_info import NAME


class autocast(torch.autocast):
    """``torch.autocast`` of this device."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__(NAME, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """``torch.amp.GradScaler`` of this device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(NAME, *args, **kwargs)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=NAME)
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type=NAME)
