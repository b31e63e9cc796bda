"""The functions and classes that users see as ``torch.<name>``.

They are about devices, streams, memory, random numbers, autocast. The names and meanings are those of ``torch.cuda``
wherever both have one, so that code moves by changing the device.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _C
from .._build_info import NAME
from . import amp as amp
from . import legacy as _legacy
from . import missing_names as _missing_names
from . import nvtx as nvtx
from .profiler import emit_ranges as emit_ranges

Device = torch.device | int | str | None
OutOfMemoryError = torch.OutOfMemoryError

_lazy_lock = threading.RLock()
_lazy_calls: list[Callable[[], None]] = []
_lazy_runs = False  # whether the thread that holds the lock is making these calls


# --- state of the process ---


def is_available() -> bool:
    """Return whether there is a driver and at least one device; start nothing."""
    return bool(_C.device_count() > 0)


def device_count() -> int:
    """How many devices there are; 0 without a driver. Starts nothing."""
    return int(_C.device_count())


def is_initialized() -> bool:
    """Return True once the driver was started by this process."""
    return bool(_C.is_initialized())


def _is_in_bad_fork() -> bool:
    return bool(_C.is_bad_fork())


def _lazy_init() -> None:
    """Start the driver, once.

    Raises RuntimeError in a forked child, and without a device. PyTorch's C++ starts it, too (pinned memory, a
    torch.Stream): then what was put off until now is still to be done. Other threads wait until it is; a call that was
    put off finds the driver started.
    """
    global _lazy_runs
    if is_initialized() and not _lazy_calls:
        return
    with _lazy_lock:
        if _lazy_runs:
            return
        if _is_in_bad_fork():
            raise RuntimeError(
                f"Cannot re-initialize {NAME.upper()} in forked subprocess. To use {NAME.upper()} with "
                "multiprocessing, you must use the 'spawn' start method"
            )
        _C.init()
        _lazy_runs = True
        try:
            while _lazy_calls:
                try:
                    _lazy_calls[0]()
                finally:
                    del _lazy_calls[0]  # not before: while there is one, other threads do not pass
        finally:
            _lazy_runs = False


def init() -> None:
    """Start the driver now instead of at the first use."""
    _lazy_init()


def _lazy_call(call: Callable[[], None]) -> None:
    """Run ``call`` now, or as soon as the driver is started."""
    if is_initialized():
        _lazy_init()  # earlier calls first
        call()
    else:
        _lazy_calls.append(call)


# --- devices ---


def _index(device: Device = None, *, optional: bool = True) -> int:
    """Return the index that ``device`` means.

    It is the current one for None or a device without index. Raises ValueError.
    """
    if device is None and optional:
        return current_device()
    if isinstance(device, int):
        return device if device >= 0 else current_device()
    named = torch.device(device)  # type: ignore[arg-type]
    if named.type != NAME:
        raise ValueError(f"Expected a {NAME} device, but got: {named}")
    return current_device() if named.index is None else int(named.index)


def current_device() -> int:
    """Return the index of this thread's current device."""
    _lazy_init()
    return int(_C.current_device())


def set_device(device: Device) -> None:
    """Make ``device`` this thread's current one.

    A negative index changes nothing. Raises RuntimeError.
    """
    _lazy_init()
    if isinstance(device, int) and device < 0:
        return
    _C.set_device(_index(device, optional=False))


def synchronize(device: Device = None) -> None:
    """Wait for all work on all streams of ``device``.

    Raises RuntimeError if some of it failed.
    """
    _lazy_init()
    _C.synchronize(_index(device))


class device:
    """Makes a device current in a ``with`` block; None or negative: no change."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else (device if isinstance(device, int) else _index(device))
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *error: object) -> None:
        self.idx = _maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor or storage current; other devices': no change."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == NAME else -1)


def _exchange_device(index: int) -> int:
    if index < 0:
        return -1
    _lazy_init()
    return int(_C.exchange_device(index))


def _maybe_exchange_device(index: int) -> int:
    return _exchange_device(index)


class _Properties:
    """A device as the driver says: name, total_memory (bytes), major, minor, units."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.name: str = values["name"]
        self.total_memory: int = values["total_memory"]
        self.major: int = values["major"]
        self.minor: int = values["minor"]
        self.units: int = values["units"]

    @property
    def multi_processor_count(self) -> int:
        """Return the units, by the name that Inductor asks for.

        See torch/_inductor/runtime/hints.py: DeviceProperties.create.
        """
        return self.units

    def __repr__(self) -> str:
        return f"{NAME}Properties({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"


def get_device_properties(device: Device = None) -> _Properties:
    """Return name, memory and architecture of a device.

    Raises RuntimeError for an index out of range.
    """
    _lazy_init()
    return _Properties(_C.properties(_index(device)))


def get_device_name(device: Device = None) -> str:
    """Return the name that the driver gives a device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Major and minor version of a device's architecture."""
    found = get_device_properties(device)
    return found.major, found.minor


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Return whether copies between devices go directly; the layer's always do."""
    return _index(device) != _index(peer_device)


def ipc_collect() -> None:
    """Free what other processes no longer use: nothing, as they get copies."""


# --- streams and events ---


class Stream(torch.Stream):
    """A queue of work on one device.

    Work on different streams has no order but that of events.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **known: Any) -> Stream:
        _lazy_init()
        if known:
            return super().__new__(cls, priority=priority, **known)  # type: ignore[call-arg, no-any-return]
        return super().__new__(cls, torch.device(NAME, _index(device)), priority=priority)  # type: ignore[no-any-return]

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority; a smaller number is a higher one."""
        return 0, -1

    @property
    def address(self) -> int:
        """The driver's own stream, as ``torch.cuda.Stream.cuda_stream`` is CUDA's."""
        return int(_C.native_stream(self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.{NAME}.Stream device={self.device} id={self.stream_id}>"


class ExternalStream(Stream):
    """A stream of the driver that somebody else made, by its address.

    The maker keeps it alive as long as this is used.
    """

    def __new__(cls, stream_ptr: int, device: Device = None) -> ExternalStream:
        _lazy_init()
        index = _index(device)
        kind = torch._C._autograd.DeviceType.PrivateUse1
        known = {"device_index": index, "device_type": int(kind)}
        return super().__new__(cls, stream_id=_C.external_stream(index, stream_ptr), **known)  # type: ignore[return-value]


def get_stream_from_external(data_ptr: int, device: Device = None) -> Stream:
    """Return the stream of the driver at an address as a stream of ours."""
    return ExternalStream(data_ptr, device)


class Event(torch.Event):
    """A point in a stream's work.

    ``elapsed_time`` (milliseconds) needs ``enable_timing=True`` on both events.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Event:
        if external:
            raise NotImplementedError(
                f"Event(external=True) on {NAME}: the driver table captures no event for others to wait on"
            )
        return super().__new__(  # type: ignore[no-any-return]
            cls, NAME, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Return milliseconds from this event to ``end_event``.

        Both must be recorded, timed and done. Raises RuntimeError. Asks the driver itself: torch.Event's own method
        refuses objects of derived classes (seen on 2.13).
        """
        if not self.event_id or not end_event.event_id:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return float(_C.elapsed(self.event_id, end_event.event_id))


def _stream(index: int, stream_id: int) -> Stream:
    if not 0 <= index < device_count():
        raise RuntimeError(f"invalid device ordinal {index}: there are {device_count()} devices")
    kind = torch._C._autograd.DeviceType.PrivateUse1
    return Stream(stream_id=stream_id, device_index=index, device_type=int(kind))


def current_stream(device: Device = None) -> Stream:
    """Return this thread's current stream of a device.

    Raises RuntimeError for an index out of range.
    """
    index = _index(device)
    return _stream(index, _C.current_stream(index))


def default_stream(device: Device = None) -> Stream:
    """Return the stream that every thread begins with.

    Raises RuntimeError for an index out of range.
    """
    return _stream(_index(device), 0)


def set_stream(stream: torch.Stream | None) -> None:
    """Make ``stream`` current, and its device with it; None changes nothing."""
    if stream is None:
        return
    _lazy_init()
    _C.set_stream(stream.device_index, stream.stream_id)
    _C.set_device(stream.device_index)


class StreamContext:
    """Makes a stream and its device current in a ``with`` block; None: no change."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._former: tuple[int, int, int] | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        _lazy_init()
        index = self.stream.device_index
        self._former = (_C.exchange_device(index), index, _C.set_stream(index, self.stream.stream_id))

    def __exit__(self, *error: object) -> None:
        if self._former is None:
            return
        device_before, index, stream_before = self._former
        _C.set_stream(index, stream_before)
        _C.exchange_device(device_before)


def stream(stream: torch.Stream | None) -> StreamContext:
    """``with stream(s):`` enqueues on s."""
    return StreamContext(stream)


def is_current_stream_capturing() -> bool:
    """Return whether the current stream's work is being captured as a graph."""
    return bool(_C.is_capturing())


def enqueue(function: Callable[[], object]) -> None:
    """Call ``function`` in its turn on the current stream.

    It needs a driver in Python (``driver.py``).
    What it raises is the RuntimeError of the next that waits for the stream. It cannot wait for a stream itself: it
    works on addresses, not by operators of PyTorch whose results it reads.
    """
    stream = current_stream()
    _C.enqueue(stream.device_index, stream.stream_id, function)


def _sleep(milliseconds: int, stream: torch.Stream | None = None) -> None:
    """Keep a stream (default: the current one) busy for a while.

    It stands in for long work in a test.
    """
    where = stream or current_stream()
    _C.occupy(where.device_index, where.stream_id, milliseconds)


# --- memory ---


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Let the cache of a device take this share of its memory and no more.

    Raises RuntimeError unless 0 to 1.
    """
    _C.set_fraction(_index(device), fraction)


def get_per_process_memory_fraction(device: Device = None) -> float:
    """Return the share of a device's memory that its cache may take."""
    return float(_C.fraction(_index(device)))


def empty_cache() -> None:
    """Give cached memory that no tensor uses back to the driver."""
    _C.empty_cache(-1)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return statistics of the caching allocator (bytes and counts).

    They have the keys of ``torch.cuda.memory_stats``. Empty before the driver is started: asking does not start it.
    """
    if not is_initialized():
        return {}
    flat: dict[str, Any] = {}
    for key, value in _C.memory_statistics(_index(device)).items():
        if isinstance(value, dict):
            flat.update({f"{key}.all.{kind}": amount for kind, amount in value.items()})
        else:
            flat[key] = value
    return flat


def memory_allocated(device: Device = None) -> int:
    """Bytes that tensors hold."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes that tensors held since the last reset."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the driver."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes taken from the driver since the last reset."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Start the peaks anew from what is held now."""
    _C.reset_peak(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Start the sums and counts anew from 0."""
    _C.reset_accumulated(_index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a device, as the driver sees it."""
    _lazy_init()
    free, total = _C.memory_info(_index(device))
    return free, total


def host_memory_stats() -> dict[str, Any]:
    """Return pinned memory statistics, nested as the driver's (bytes and counts)."""
    return dict(_C.pinned_statistics())


# --- random numbers ---


def _default_generators() -> Sequence[torch.Generator]:
    if is_available():
        _lazy_init()  # or a seed from before would come after what the caller does with them
    return tuple(_C.default_generator(index) for index in range(device_count()))


def _get_generator(device: torch.device) -> torch.Generator:
    """Return the default generator of ``device``; torch.compile asks for it."""
    _lazy_init()
    made: torch.Generator = _C.default_generator(_index(device))
    return made


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return _default_generators()
    if name == "_initialized":  # torch.utils.checkpoint asks, and keeps no random state where it is not true
        return is_initialized()
    if name in ("_gpu_trace", "_sanitizer"):  # PyTorch's C++ asks for the first once somebody watches
        return importlib.import_module(f"{__package__}.{name.removeprefix('_')}")
    if name in _legacy.TYPES:
        return _legacy.TYPES[name]
    if name in ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen"):  # Inductor asks
        return importlib.import_module(f"{__package__}.inductor").CLASSES[name]
    if name in _missing_names.WITHOUT_GRAPHS and _C.has_graphs():
        graphs = importlib.import_module(f"{__package__}.graphs")
        return graphs if name == "graphs" else getattr(graphs, name)
    known = name in _missing_names.REASONS or name in _missing_names.WITHOUT_GRAPHS
    reason = f": {_missing_names.as_sentence(name)}" if known else ""
    raise AttributeError(f"module 'torch.{NAME}' has no attribute {name!r}{reason}")


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; ignored without a device."""
    if is_available():
        _lazy_call(lambda: _C.default_generator(_C.current_device()).manual_seed(int(seed)))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; ``torch.manual_seed`` calls this."""

    def call() -> None:
        for generator in _default_generators():
            generator.manual_seed(int(seed))

    if is_available():
        _lazy_call(call)


def seed() -> int:
    """Seed the current device's generator from the system's entropy; returns the seed."""
    _lazy_init()
    return int(_C.default_generator(current_device()).seed())


def seed_all() -> None:
    """Seed all generators alike from the system's entropy."""
    _lazy_init()
    chosen = _C.default_generator(0).seed()
    manual_seed_all(chosen)


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return int(_C.default_generator(current_device()).initial_seed())


def get_rng_state(device: Device = NAME) -> torch.Tensor:
    """Return the state of a device's generator: a CPU tensor of bytes."""
    _lazy_init()
    state: torch.Tensor = _C.default_generator(_index(device)).get_state()
    return state


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = NAME) -> None:
    """Put a state from :func:`get_rng_state` back."""
    state = new_state.clone(memory_format=torch.contiguous_format)
    _lazy_call(lambda: _C.default_generator(_index(device)).set_state(state))


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Put the states of all devices' generators back."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


# --- numerics ---


def get_amp_supported_dtype() -> list[torch.dtype]:
    """List what ``torch.autocast`` may lower to; it warns and stays off for others."""
    return [torch.float16, torch.bfloat16]


def is_tf32_supported() -> bool:
    """Return whether float32 products may be rounded as TF32 is.

    They may not: the driver table knows of nothing like it.
    """
    return False


def get_arch_list() -> list[str]:
    """Return architectures of compiled kernels: none, they are the driver's own."""
    return []


def get_gencode_flags() -> str:
    """Return a compiler's flags for `get_arch_list`: none."""
    return ""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works, if only on the CPU by fallback."""
    return including_emulation


def set_fallback_enabled(enabled: bool) -> bool:
    """Set whether operators without a kernel run on the CPU (the default) or raise.

    Returns the former setting.
    """
    return bool(_C.set_fallback_enabled(enabled))


@contextlib.contextmanager
def no_fallback() -> Iterator[None]:
    """Inside the ``with`` block operators without a kernel raise NotImplementedError."""
    former = set_fallback_enabled(False)
    try:
        yield
    finally:
        set_fallback_enabled(former)


def _set_flags(tensor: torch.Tensor, flags: dict[str, bool]) -> None:
    """Attach named flags to a tensor; they are saved and loaded with it."""
    _C.set_flags(tensor, flags)


def _get_flags(tensor: torch.Tensor) -> dict[str, bool]:
    """Return the flags attached to a tensor."""
    return dict(_C.get_flags(tensor))


_SYNC_DEBUG_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Warn or raise where an operator waits for the device.

    ``default`` or 0: do neither, ``warn`` or 1, ``error`` or 2. Operators wait that copy to the host, or from memory
    that is not pinned: ``item()``, ``cpu()``, and all that run on the CPU. `synchronize` and its like are not meant.
    """
    known = _SYNC_DEBUG_MODES if isinstance(debug_mode, str) else range(len(_SYNC_DEBUG_MODES))
    if debug_mode not in known:
        raise RuntimeError(f"debug_mode is one of default, warn, error, or 0 to 2, not {debug_mode!r}")
    _C.set_sync_debug_mode(known.index(debug_mode))  # type: ignore[arg-type]


def get_sync_debug_mode() -> int:
    """Return what `set_sync_debug_mode` set: 0, 1 or 2."""
    return int(_C.sync_debug_mode())


def _driver_control(key: str, value: int) -> None:
    """Turn a knob of the driver (fault injection on a simulated one).

    Raises RuntimeError for an unknown key.
    """
    _C.driver_control(key, value)


def _records_work() -> bool:
    """Return whether `torch.profiler` shows what the device did.

    Its driver must record it, and this PyTorch have Kineto.
    """
    return bool(_C.records_work())


def names_without() -> dict[str, str]:
    """Names of ``torch.cuda`` that this device has not, with the reason."""
    return _missing_names.REASONS | ({} if _C.has_graphs() else _missing_names.WITHOUT_GRAPHS)


def as_cuda(warn: bool = False) -> Any:
    """Let ``cuda`` mean this device inside a ``with`` block.

    It is for programs written for CUDA. See `as_cuda.as_cuda` of the layer; nothing of it is loaded before it is asked
    for.
    """
    from .as_cuda import as_cuda as context

    return context(warn)


def sanitizer() -> Any:
    """Find work of two streams on the same memory that nothing orders.

    Use it in a ``with`` block, or by its methods ``enable`` and ``disable``: see `sanitizer.Sanitizer` of the layer.
    ``TORCH_<NAME>_SANITIZER=1`` is for a whole program. What it raises is a RuntimeError.
    """
    from .sanitizer import Sanitizer

    return Sanitizer()


# Written on what stands above; torch.cuda has them at both places, too.
from . import memory, random, streams  # noqa: E402, F401
from .memory import MemPool as MemPool  # noqa: E402
from .memory import caching_allocator_alloc as caching_allocator_alloc  # noqa: E402
from .memory import caching_allocator_delete as caching_allocator_delete  # noqa: E402
from .memory import caching_allocator_disabled as caching_allocator_disabled  # noqa: E402
from .memory import caching_allocator_enable as caching_allocator_enable  # noqa: E402
from .memory import device_memory_used as device_memory_used  # noqa: E402
from .memory import get_allocator_backend as get_allocator_backend  # noqa: E402
from .memory import host_memory_stats_as_nested_dict as host_memory_stats_as_nested_dict  # noqa: E402
from .memory import max_memory_cached as max_memory_cached  # noqa: E402
from .memory import memory_cached as memory_cached  # noqa: E402
from .memory import memory_snapshot as memory_snapshot  # noqa: E402
from .memory import memory_stats_as_nested_dict as memory_stats_as_nested_dict  # noqa: E402
from .memory import memory_summary as memory_summary  # noqa: E402
from .memory import reset_accumulated_host_memory_stats as reset_accumulated_host_memory_stats  # noqa: E402
from .memory import reset_max_memory_allocated as reset_max_memory_allocated  # noqa: E402
from .memory import reset_max_memory_cached as reset_max_memory_cached  # noqa: E402
from .memory import reset_peak_host_memory_stats as reset_peak_host_memory_stats  # noqa: E402
from .memory import use_mem_pool as use_mem_pool  # noqa: E402
