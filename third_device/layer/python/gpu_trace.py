"""``torch.<name>._gpu_trace``: what ``torch.cuda._gpu_trace`` is, for this device.

PyTorch's C++ calls the registries by their names (torch/csrc/PyInterpreter.cpp: CONCRETE_GPU_TRACE) once
``torch._C._activate_gpu_trace()`` was called. The numbers are addresses of the driver: of an event, memory, a stream.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable

from torch._utils import CallbackRegistry

from .. import _C
from .._build_info import NAME

atexit.register(_C.watch, False)  # PyTorch imports torch.<name> for each call, which an interpreter that ends cannot


class _Registry(CallbackRegistry[...]):
    """Functions that are called when one kind of thing happens on a device."""

    def add_callback(self, cb: Callable[..., None]) -> None:
        super().add_callback(cb)
        _C.watch(True)

    def remove_callback(self, cb: Callable[..., None]) -> None:
        """Forget ``cb``; once none is left, nothing is told any more."""
        self.callback_list.remove(cb)
        if not any(each.callback_list for each in ALL):
            _C.watch(False)


EventCreationCallbacks = _Registry(f"{NAME} event creation")
EventDeletionCallbacks = _Registry(f"{NAME} event deletion")
EventRecordCallbacks = _Registry(f"{NAME} event record")
EventWaitCallbacks = _Registry(f"{NAME} event wait")
MemoryAllocationCallbacks = _Registry(f"{NAME} memory allocation")
MemoryDeallocationCallbacks = _Registry(f"{NAME} memory deallocation")
StreamCreationCallbacks = _Registry(f"{NAME} stream creation")
DeviceSynchronizationCallbacks = _Registry(f"{NAME} device synchronization")
StreamSynchronizationCallbacks = _Registry(f"{NAME} stream synchronization")
EventSynchronizationCallbacks = _Registry(f"{NAME} event synchronization")

ALL = (
    *(EventCreationCallbacks, EventDeletionCallbacks, EventRecordCallbacks, EventWaitCallbacks),
    *(MemoryAllocationCallbacks, MemoryDeallocationCallbacks, StreamCreationCallbacks),
    *(DeviceSynchronizationCallbacks, StreamSynchronizationCallbacks, EventSynchronizationCallbacks),
)

register_callback_for_event_creation = EventCreationCallbacks.add_callback
register_callback_for_event_deletion = EventDeletionCallbacks.add_callback
register_callback_for_event_record = EventRecordCallbacks.add_callback
register_callback_for_event_wait = EventWaitCallbacks.add_callback
register_callback_for_memory_allocation = MemoryAllocationCallbacks.add_callback
register_callback_for_memory_deallocation = MemoryDeallocationCallbacks.add_callback
register_callback_for_stream_creation = StreamCreationCallbacks.add_callback
register_callback_for_device_synchronization = DeviceSynchronizationCallbacks.add_callback
register_callback_for_stream_synchronization = StreamSynchronizationCallbacks.add_callback
register_callback_for_event_synchronization = EventSynchronizationCallbacks.add_callback
