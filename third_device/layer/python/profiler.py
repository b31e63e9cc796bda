"""The device in `torch.profiler`, and names for the vendor's own tools."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.autograd import ProfilerConfig, ProfilerState, _disable_profiler, _enable_profiler

#: Modules that hold the question; each has its own name for one function.
_HOLDERS = (
    "torch._C._autograd",
    "torch.autograd",
    "torch.autograd.profiler",
    "torch.profiler",
    "torch.profiler.profiler",
)


def register() -> None:
    """Let PrivateUse1 be among the supported activities.

    A PyTorch whose Kineto is compiled with CUPTI does not name it (torch/csrc/autograd/init.cpp), though it traces it.
    A profile that asks for it then falls back to timing every operator with events and shows no row of the device.
    """
    activity: Any = getattr(torch.autograd.ProfilerActivity, "PrivateUse1", None)
    theirs: Any = getattr(torch.autograd, "_supported_activities", None)
    if activity is None or theirs is None or activity in theirs():
        return

    def _supported_activities() -> set[Any]:
        return {*theirs(), activity}

    for name in _HOLDERS:
        module = sys.modules.get(name)
        if getattr(module, "_supported_activities", None) is theirs:
            module._supported_activities = _supported_activities  # type: ignore[union-attr]


@contextlib.contextmanager
def emit_ranges() -> Iterator[None]:
    """Name each operator of this thread to the vendor's own tool.

    It calls the driver's ``range_push`` and ``range_pop``. What `torch.autograd.profiler.emit_nvtx` is for CUDA,
    without shapes and sequence numbers.
    """
    choices = (False, False, False, False, False, _ExperimentalConfig())
    _enable_profiler(ProfilerConfig(ProfilerState.PRIVATEUSE1, *choices), set())
    try:
        yield
    finally:
        _disable_profiler()
