"""``torch.<name>.sanitizer()``: ``torch.cuda._sanitizer`` for this device.

It finds work of two streams on the same memory that no event and no synchronisation orders. How streams order each
other is upstream's to know; ours are this device's trace, its tensors, and that each device has a current stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.cuda._sanitizer as upstream  # which activates PyTorch's trace of accelerators
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from .._build_info import NAME
from . import gpu_trace


class RaceError(upstream.CUDASanitizerErrors, RuntimeError):
    """Two operators use the same memory on two streams in no order.

    ``errors`` has upstream's reports, each with the stack traces of both, which stderr gets, too.
    """

    def __init__(self, errors: list[Any], streams: dict[int, str]) -> None:
        super().__init__(errors)
        self._streams = streams

    def __str__(self) -> str:
        now, before = self.errors[0].current_access, self.errors[0].previous_access
        first, second = (self._streams.get(each.stream, "another stream") for each in (before, now))
        return (
            f"{_name_operator(now)} on {second} and earlier {_name_operator(before)} on {first} use the same memory, "
            f"and nothing orders them ({len(self.errors)} such places); next: wait_stream of the later one, or an event"
        )


def _name_operator(access: Any) -> str:
    return str(access.operator).partition("(")[0]


class _Use(upstream.ArgumentHandler):
    """What an operator reads and writes of this device's memory, by device."""

    def __init__(self) -> None:
        super().__init__()
        self.by_device: dict[int, set[int]] = {}
        self.views: dict[int, int] = {}  # address -> that of the memory within which it lies

    def _handle_argument(
        self, value: Any, is_write: bool, metadata_only: bool, name: str | None = None, is_output: bool = False
    ) -> None:
        if not isinstance(value, torch.Tensor) or value.device.type != NAME:
            return
        try:
            address = value.data_ptr() or id(value)  # two empty tensors are two
            begin = value.untyped_storage().data_ptr()
        except RuntimeError:  # it has no memory of its own: sparse, fake, functional
            return
        self.by_device.setdefault(value.device.index, set()).add(address)
        if begin != address:
            self.views[address] = begin
        aliases = self.tensor_aliases.setdefault(address, [])
        if name is not None:
            aliases.append(name)
        if is_write:
            self.dataptrs_written.add(address)
        elif not metadata_only:
            self.dataptrs_read.add(address)
        if is_output:
            self.outputs.add(address)


class _Mode(TorchDispatchMode):
    """Sees every operator of the threads that are in it."""

    def __init__(self, handler: upstream.EventHandler) -> None:
        super().__init__()
        self._handler = handler
        self._streams: dict[int, str] = {}
        self._views: dict[int, set[int]] = {}

    def forget_memory(self, address: int) -> None:
        """Forget who used this memory, and each view into it: another tensor may get it."""
        for place in (address, *self._views.pop(address, ())):
            self._handler._handle_memory_deallocation(place)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload) or func is torch.ops.aten.record_stream.default:
            return func(*args, **kwargs)
        schema, use = func._schema, _Use()
        shapes_only = upstream.FACTORY_FUNCTION_REGEX.match(schema.name) is not None
        use.parse_inputs(schema, args, kwargs, is_factory=shapes_only)
        result = func(*args, **kwargs)
        use.parse_outputs(schema, result, is_factory=shapes_only)
        for address, begin in use.views.items():
            self._views.setdefault(begin, set()).add(address)
        errors: list[Any] = []
        for device, addresses in use.by_device.items():  # a copy between two is ordered on both
            number = _C.current_stream(device)
            stream = _C.native_stream(device, number)
            self._streams[stream] = f"stream {number} of {NAME}:{device}"
            written = use.dataptrs_written & addresses
            read = (use.dataptrs_read & addresses) - written
            errors += self._handler._handle_kernel_launch(
                stream,
                read,
                written,
                use.outputs,
                schema,  # type: ignore[arg-type]  # as upstream does: its text names the operator
                use.tensor_aliases,
            )
        if errors:
            for error in errors:
                print(error, file=sys.stderr)
            raise RaceError(errors, self._streams)
        return result


class Sanitizer:
    """Watches this device, in a ``with`` block or between `enable` and `disable`.

    It sees the operators of the thread that enables it and of backward, and begins with what it sees then: enable it
    before there are streams.
    """

    def __init__(self) -> None:
        self._mode: _Mode | None = None
        self._callbacks: list[tuple[Any, Callable[..., None]]] = []

    @property
    def enabled(self) -> bool:
        """Whether it watches."""
        return self._mode is not None

    def enable(self) -> None:
        """Begin to watch."""
        if self._mode is not None:
            raise RuntimeError(f"this torch.{NAME}.sanitizer() is enabled already")
        handler = upstream.EventHandler()
        mode = _Mode(handler)
        self._callbacks = [
            (gpu_trace.EventCreationCallbacks, handler._handle_event_creation),
            (gpu_trace.EventDeletionCallbacks, handler._handle_event_deletion),
            (gpu_trace.EventRecordCallbacks, handler._handle_event_record),
            (gpu_trace.EventWaitCallbacks, handler._handle_event_wait),
            (gpu_trace.MemoryAllocationCallbacks, handler._handle_memory_allocation),
            (gpu_trace.MemoryDeallocationCallbacks, mode.forget_memory),
            (gpu_trace.StreamCreationCallbacks, handler._handle_stream_creation),
            (gpu_trace.DeviceSynchronizationCallbacks, handler._handle_device_synchronization),
            (gpu_trace.StreamSynchronizationCallbacks, handler._handle_stream_synchronization),
            (gpu_trace.EventSynchronizationCallbacks, handler._handle_event_synchronization),
        ]
        for registry, callback in self._callbacks:
            registry.add_callback(callback)
        self._mode = mode
        mode.__enter__()

    def disable(self) -> None:
        """Stop watching; nothing is left that would cost this device anything."""
        if self._mode is None:
            return
        self._mode.__exit__(None, None, None)
        self._mode = None
        for registry, callback in self._callbacks:
            registry.remove_callback(callback)
        self._callbacks = []

    def __enter__(self) -> Sanitizer:
        self.enable()
        return self

    def __exit__(self, *error: object) -> None:
        self.disable()
