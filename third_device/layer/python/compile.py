"""What ``torch.compile`` asks of a device. Imported only when Dynamo is."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from .. import _C
from .._build_info import NAME
from . import device as api


class Interface(DeviceInterface):
    """Dynamo's view of the device."""

    device = api.device
    Event = api.Event
    Stream = api.Stream

    class Worker:
        """Compile workers are processes of their own and must not start the driver."""

        _current = 0
        _properties: ClassVar[dict[int, Any]] = {}

        @staticmethod
        def set_device(device: int) -> None:
            Interface.Worker._current = device

        @staticmethod
        def current_device() -> int:
            return Interface.Worker._current

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            index = 0 if device is None else torch.device(device).index or 0
            if not Interface.Worker._properties:
                Interface.Worker._properties = {i: api.get_device_properties(i) for i in range(api.device_count())}
            return Interface.Worker._properties[index]

    current_device = staticmethod(api.current_device)
    set_device = staticmethod(api.set_device)
    device_count = staticmethod(api.device_count)
    is_available = staticmethod(api.is_available)
    synchronize = staticmethod(api.synchronize)
    stream = staticmethod(api.stream)  # type: ignore[assignment]
    current_stream = staticmethod(api.current_stream)
    set_stream = staticmethod(api.set_stream)
    exchange_device = staticmethod(api._exchange_device)
    maybe_exchange_device = staticmethod(api._maybe_exchange_device)
    get_device_properties = staticmethod(api.get_device_properties)
    get_compute_capability = staticmethod(api.get_device_capability)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        _C.set_stream(device_index, stream_id)

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return api.current_stream(device_idx).address  # which a code generator's launcher takes

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return api.is_bf16_supported(including_emulation)

    @staticmethod
    def memory_allocated(device: Any = None) -> int:
        return api.memory_allocated(device)


def register() -> None:
    """Tell Dynamo of the device, with and without an index."""
    register_interface_for_device(NAME, Interface)
    for index in range(api.device_count()):
        register_interface_for_device(f"{NAME}:{index}", Interface)
    # Random operators in checkpointed regions: later releases ask for generators that go back to a state of their own;
    # of earlier ones only the devices that they know have any (torch/_prims/rng_prims.py: run_and_save_rng_state).
    with contextlib.suppress(ImportError):
        from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type

        register_graphsafe_rng_device_type(NAME)
