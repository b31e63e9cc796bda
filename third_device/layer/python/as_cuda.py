"""Programs written for CUDA, run on this device: ``torch.<name>.as_cuda()``.

While a context is open, ``cuda`` means this device in the threads that are in it: a function mode translates devices
in calls of PyTorch, ``torch.cuda`` answers with ``torch.<name>``, and the attributes that `_replacements` lists stand
in for the few functions that neither reaches. The last context that closes puts every one of them back.

PyTorch's own Python code goes on seeing what is true; only the program sees CUDA. What cannot be mapped raises
NotImplementedError with the reason, or is told in docs/backends.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import re
import runpy
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.amp.grad_scaler
import torch.autograd.function
import torch.cuda.amp
import torch.profiler.profiler
import torch.serialization
import torch.storage
import torch.utils.data.dataloader
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from .._build_info import NAME
from . import legacy
from .missing_names import as_sentence

VARIABLE = "DECOUPLE_AS_CUDA"
"""Names the device for which a whole program's ``cuda`` is meant."""
WARN = "DECOUPLE_AS_CUDA_WARN"
"""Set to 1: each use of ``torch.cuda`` warns with the name that needs no context."""

_PACKAGE = __package__.partition(".")[0]
_MISSING = object()
_type_of: Callable[[torch.device], str] = vars(torch.device)["type"].__get__
_device_slots: dict[str, Any] = gc.get_referents(vars(torch.device))[0]


# --- who is inside ---


class _Session:
    """One ``with`` block.

    Threads that it started share it, and stop being inside when it ends.
    """

    def __init__(self, warn: bool, owner: object) -> None:
        self.open = True
        self.warn = warn
        self.owner = owner  # lives as long as its block is open, whoever else holds it

    def close(self) -> None:
        """Let no thread be inside any more."""
        self.open = False
        _open.remove(self)


_thread = threading.local()
_open: list[_Session] = []
"""The sessions of all threads, in the order in which they began."""


def _sessions() -> list[_Session]:
    """List the open sessions of this thread."""
    return [session for session in getattr(_thread, "sessions", ()) if session.open]


_CUDA_ALONE = {
    ("torch.distributed.fsdp._fully_shard._fsdp_state", "_root_pre_forward"),  # moves inputs to the device
    ("torch.distributed.fsdp._fully_shard._fsdp_param_group", "finalize_backward"),  # torch.cuda.current_stream in 2.6
}
"""Functions of PyTorch, by module, that do for CUDA by name what any device needs: they see CUDA as a program does."""


def _seen_by_program(depth: int = 2) -> bool:
    """Return whether the code that asks is the program's.

    It is inside a context, and neither PyTorch's nor this backend's. PyTorch's helpers of tests are the program's.
    """
    frame = sys._getframe(depth)
    asking = frame.f_globals.get("__name__") or ""
    own = asking.partition(".")[0] in ("torch", _PACKAGE) and not asking.startswith("torch.testing._internal.")
    return (not own or (asking, frame.f_code.co_name) in _CUDA_ALONE) and bool(_sessions())


# --- names of devices ---

_CUDA = re.compile(r"cuda(:[0-9]+)?\Z")


def _translated(value: Any) -> Any:
    """Return ``value`` with ``cuda`` as this device.

    It is changed where it names a device, a type of tensors, or is a device.
    """
    if isinstance(value, str):
        if _CUDA.match(value):
            return NAME + value[4:]
        if value.startswith("torch.cuda.") and value.endswith("Tensor"):
            return f"torch.{NAME}.{value[11:]}"
    elif isinstance(value, torch.device) and value.type == "cuda":  # made before the context, or by C++
        return torch.device(NAME) if value.index is None else torch.device(NAME, value.index)
    return value


# --- the function mode ---


def _cuda(tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **more: Any) -> torch.Tensor:
    """``Tensor.cuda``: to the current device where none is given."""
    if isinstance(device, int):
        device = torch.device(NAME, device) if device >= 0 else None
    return tensor.to(_translated(device) or torch.device(NAME), non_blocking=non_blocking, **more)


def _is_cuda(tensor: torch.Tensor, *_: Any) -> bool:
    return bool(getattr(tensor, f"is_{NAME}"))


def _type(tensor: torch.Tensor, dtype: Any = None, *more: Any, **named: Any) -> Any:
    """``Tensor.type``: with the names of CUDA's types, both ways."""
    if isinstance(dtype, legacy.LegacyTensorType):
        return tensor.to(torch.device(NAME), dtype.dtype)
    if dtype is not None:
        return tensor.type(_translated(dtype), *more, **named)
    return tensor.type().replace(f"torch.{NAME}.", "torch.cuda.")


def _bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``function`` for autograd's engine.

    The engine calls it without the function modes of whoever called backward. On the engine's own threads there is
    nothing of that caller, and no frame below: then the last session that is open is taken for his.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        inside = _sessions()
        if not inside and sys._getframe().f_back is None:
            inside = _open
        if not inside or any(isinstance(mode, _Mode) for mode in _get_current_function_mode_stack()):
            return function(*args, **kwargs)
        with _joined(inside[-1]):
            return function(*args, **kwargs)

    return call


def _register_hook(tensor: torch.Tensor, hook: Callable[..., Any]) -> Any:
    return tensor.register_hook(_bound(hook))


def _register_post_accumulate_grad_hook(tensor: torch.Tensor, hook: Callable[..., Any]) -> Any:
    return tensor.register_post_accumulate_grad_hook(_bound(hook))


_INSTEAD: dict[Any, Callable[..., Any]] = {
    torch.Tensor.cuda: _cuda,
    torch.Tensor.is_cuda.__get__: _is_cuda,  # type: ignore[attr-defined]
    torch.Tensor.type: _type,
    torch.Tensor.register_hook: _register_hook,
    torch.Tensor.register_post_accumulate_grad_hook: _register_post_accumulate_grad_hook,
}
"""What is done instead of a function of PyTorch."""

_BY_POSITION = {torch.device, torch.Tensor.to, torch._C._nn._parse_to, torch.Tensor.pin_memory, torch.Tensor.is_pinned}
"""Functions that take a device without its keyword; in all others a text ``"cuda"`` may be anything: an equation."""
_BY_KEYWORD = ("device", "type")


class _Mode(TorchFunctionMode):
    """Translates devices in the arguments of PyTorch's functions."""

    def __init__(self, session: _Session) -> None:
        super().__init__()
        self.session = session

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.session.open:
            return func(*args, **kwargs)
        instead = _INSTEAD.get(func)
        if instead is not None:
            return instead(*args, **kwargs)
        if func in _BY_POSITION:
            args = tuple(map(_translated, args))
        for key in _BY_KEYWORD:
            if key in kwargs:
                kwargs = {**kwargs, key: _translated(kwargs[key])}
        return func(*args, **kwargs)


# --- torch.cuda, as a program sees it ---


def _counterpart(module: str) -> Any:
    """Return what answers for a module of ``torch.cuda``; None without such."""
    device = getattr(torch, NAME)
    part = module.removeprefix("torch.cuda").lstrip(".")
    if module == _SANITIZER:  # its classes are the ones that the device's is made of
        return None
    return getattr(device, part, None) if part else device


def _sleep_cycles(cycles: int) -> None:
    """Keep the current stream busy for ``cycles`` of 1 GHz, as torch.cuda._sleep."""
    getattr(torch, NAME)._sleep(int(cycles) // 1_000_000)


def _nccl_version() -> tuple[int, int, int]:
    """Say of nccl's version that it is above each that a program asks for.

    Nothing of the collectives hangs on it.
    """
    return 2, 99, 0


def _own_sanitizer() -> Any:
    """Return this thread's sanitizer, which ends with the thread's last block."""
    held: Any = _thread.__dict__.get("sanitizer")
    if held is None:
        held = _thread.__dict__["sanitizer"] = getattr(torch, NAME).sanitizer()
    return held


def _enable_sanitizer() -> None:
    """Watch this device, as enable_cuda_sanitizer does CUDA."""
    own = _own_sanitizer()
    if not own.enabled:
        own.enable()


def _graph_class() -> Any:
    return getattr(getattr(torch, NAME), "Graph", None) or _refusal("torch.cuda.CUDAGraph")


def _sanitizer_class() -> Any:
    return getattr(torch, NAME)._sanitizer.Sanitizer


_SANITIZER = "torch.cuda._sanitizer"
_UNLIKE: dict[str, Callable[..., Any]] = {
    "torch.cuda._sleep": _sleep_cycles,
    "torch.cuda.nccl.version": _nccl_version,
    f"{_SANITIZER}.enable_cuda_sanitizer": _enable_sanitizer,
}
"""What ``torch.<name>`` has not, or with another meaning."""
_MADE: dict[str, Callable[[], Any]] = {
    "torch.cuda.CUDAGraph": _graph_class,
    "torch.cuda.graphs.CUDAGraph": _graph_class,
    f"{_SANITIZER}.cuda_sanitizer": _own_sanitizer,
    f"{_SANITIZER}.CUDASanitizer": _sanitizer_class,
    f"{_SANITIZER}.CUDASanitizerDispatchMode": _sanitizer_class,
}
"""What stands for such a name, made when it is asked for."""


def _refusal(full: str) -> Callable[..., Any]:
    """Make a function that says why there is nothing to call."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{full} on {NAME}: {as_sentence(full.removeprefix('torch.cuda.'))}")

    refuse.__name__ = refuse.__qualname__ = full.rpartition(".")[2]
    return refuse


class _Facade(types.ModuleType):
    """The class of ``torch.cuda`` and its modules while a context is open.

    Nothing in them changes.
    """

    def __getattribute__(self, name: str) -> Any:
        own = types.ModuleType.__getattribute__
        if name.startswith("__") or not _seen_by_program():
            return own(self, name)
        here, module = own(self, "__dict__"), own(self, "__name__")
        found = here.get(name, _MISSING)
        if found is not _pristine.get(module, {}).get(name, _MISSING):
            return found if found is not _MISSING else own(self, name)  # the program's own: mocks, say
        full = f"{module}.{name}"
        instead: Any = _MADE[full]() if full in _MADE else _UNLIKE.get(full)
        instead = instead or getattr(_counterpart(module), name, _MISSING)
        if any(session.warn for session in _sessions()):
            warnings.warn(
                f"{full} is this program's CUDA: say torch.accelerator or torch.{NAME} "
                "(`decouple neutral FILE` shows how)",
                DeprecationWarning,
                stacklevel=2,
            )
        if instead is not _MISSING and not isinstance(found, types.ModuleType):
            return instead
        if isinstance(found, types.FunctionType) and not name.startswith("_") and module != _SANITIZER:
            return _refusal(full)
        return own(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        types.ModuleType.__setattr__(self, name, value)
        full = f"{types.ModuleType.__getattribute__(self, '__name__')}.{name}"
        if value is sys.modules.get(full):  # the end of its first import
            _show(full)

    def __dir__(self) -> list[str]:
        return sorted(vars(self))


_FACADES = (
    *("", ".memory", ".random", ".streams", ".graphs", ".nvtx", ".nccl", ".comm", ".profiler", ".tunable", ".gds"),
    "._sanitizer",
)
_pristine: dict[str, dict[str, Any]] = {}


# --- what else has to be replaced while a context is open ---


def _inside(original: Callable[..., Any], *names: str | int) -> Callable[..., Any]:
    """Return ``original``; it translates arguments ``names`` (or places) in a context."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _sessions():
            args = tuple(_translated(value) if place in names else value for place, value in enumerate(args))
            kwargs = {key: _translated(value) if key in names else value for key, value in kwargs.items()}
        return original(*args, **kwargs)

    return call


def _scaler(original: Callable[..., None]) -> Callable[..., None]:
    """GradScaler's default is ``cuda``."""

    @functools.wraps(original)
    def init(self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        original(self, _translated(device) if _sessions() else device, *args, **kwargs)

    return init


def _unpositional(original: Callable[..., Any]) -> Callable[..., Any]:
    """Replace ``torch.is_autocast_enabled()`` and its like.

    Without an argument they mean CUDA.
    """

    @functools.wraps(original)
    def call(*args: Any) -> Any:
        if not _sessions():
            return original(*args)
        of_cuda = not args or isinstance(args[0], bool | torch.dtype)
        return original(NAME, *args) if of_cuda else original(_translated(args[0]), *args[1:])

    return call


def _gpu(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace ``torch.get_autocast_gpu_dtype`` and its like.

    The function that names a device does it.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any) -> Any:
            return getattr(torch, name)(NAME, *args) if _sessions() else original(*args)

        return call

    return make


def _activities(original: Callable[..., None]) -> Callable[..., None]:
    """Make a profile of CUDA one of the device."""
    kinds = torch.profiler.ProfilerActivity

    @functools.wraps(original)
    def init(self: Any, *, activities: Any = None, **kwargs: Any) -> None:
        if activities is not None and _sessions() and hasattr(kinds, "PrivateUse1"):
            activities = {kinds.PrivateUse1 if kind == kinds.CUDA else kind for kind in activities}
        original(self, activities=activities, **kwargs)

    return init


def _device_of_profile(original: Callable[..., None]) -> Callable[..., None]:
    """Make a profile of autograd's own one of the device.

    A program says ``use_cuda=True``, or ``use_device="cuda"``.
    """

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _sessions():
            use_cuda = kwargs.pop("use_cuda", False)
            kwargs["use_device"] = NAME if use_cuda else _translated(kwargs.get("use_device"))
        original(self, *args, **kwargs)

    return init


def _start(original: Callable[..., None]) -> Callable[..., None]:
    """Threads that are started in a context are in it."""

    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        inherited = _sessions()
        if not inherited:
            return original(self)
        own = vars(self).get("run", _MISSING)

        def run() -> None:
            restore()
            with contextlib.ExitStack() as stack:
                for session in inherited:
                    stack.enter_context(_joined(session))
                self.run()

        def restore() -> None:
            if own is _MISSING:
                vars(self).pop("run", None)
            else:
                vars(self)["run"] = own

        self.run = run  # type: ignore[method-assign]
        try:
            return original(self)
        except BaseException:
            restore()
            raise

    return start


class _StandIn:
    """A name for a class: calling it translates the device.

    All else, instances and subclasses too, is the class's.
    """

    def __init__(self, stands_for: type) -> None:
        self._stands_for = stands_for

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _sessions():
            args, kwargs = tuple(map(_translated, args)), {key: _translated(value) for key, value in kwargs.items()}
        return self._stands_for(*args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self._stands_for)

    def __subclasscheck__(self, subclass: Any) -> bool:
        return issubclass(subclass, self._stands_for)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (self._stands_for,)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stands_for, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._stands_for

    def __hash__(self) -> int:
        return hash(self._stands_for)

    def __or__(self, other: Any) -> Any:
        return self._stands_for | other

    def __ror__(self, other: Any) -> Any:
        return other | self._stands_for

    def __reduce__(self) -> Any:
        return _same, (self._stands_for,)


def _same(value: Any) -> Any:
    return value


def _refused_default(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def call(kind: Any) -> None:
        if isinstance(kind, legacy.LegacyTensorType) or (isinstance(kind, str) and kind.startswith("torch.cuda.")):
            raise NotImplementedError(
                f"torch.set_default_tensor_type of a type of {NAME}: PyTorch takes CPU's and CUDA's types only; "
                'say torch.set_default_dtype(…) and torch.set_default_device("cuda")'
            )
        original(kind)

    return call


def _refused_data_parallel(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _sessions() and not hasattr(torch._C, "_scatter"):
            raise NotImplementedError(
                f"torch.nn.DataParallel on {NAME}: what scatters and gathers is in CUDA's part of PyTorch's C++; "
                "say torch.nn.parallel.DistributedDataParallel"
            )
        original(self, *args, **kwargs)

    return init


def _true(original: Callable[[], bool]) -> Callable[[], bool]:
    @functools.wraps(original)
    def call() -> bool:
        return True if _seen_by_program() else original()

    return call


def _pairs(name: str, devices: dict[str, str], kinds: dict[str, str]) -> str:
    """Rename devices and kinds of backends in ``nccl`` or ``cpu:gloo,cuda:nccl``."""
    pairs = [pair.rpartition(":") for pair in name.lower().split(",")]
    return ",".join(devices.get(device, device) + colon + kinds.get(kind, kind) for device, colon, kind in pairs)


def _backends(original: Any) -> Any:
    """Make ``dist.Backend("nccl")`` the collective backend of this device.

    It may stand alone or in ``cpu:gloo,cuda:nccl``.
    """
    make = original.__func__ if isinstance(original, staticmethod) else original

    def new(cls: Any, name: Any) -> Any:
        if isinstance(name, str) and _sessions():
            name = _pairs(name, {"cuda": NAME}, {"nccl": cls.default_device_backend_map[NAME]})
        return make(cls, name)

    return staticmethod(new)


def _register_backend(original: Any) -> Any:
    """Let a collective backend registered for ``cuda`` be one for this device.

    As CUDA's default is not changed by that, the device's is not. ``more`` is what PyTorch says of its own backends,
    which it registers when they are first asked for since 2.14; those stay what they are.
    """
    register = original.__func__

    def call(cls: Any, name: str, func: Any, extended_api: bool = False, devices: Any = None, **more: Any) -> None:
        named = [devices] if isinstance(devices, str) else devices or ()
        if not _sessions() or more or (devices is not None and "cuda" not in named):
            register(cls, name, func, extended_api, devices, **more)
            return
        default = cls.default_device_backend_map[NAME]
        register(cls, name, func, extended_api, devices and [_translated(device) for device in named])
        cls.default_device_backend_map[NAME] = default
        able = cls.backend_capability  # without devices it is the CPU's and CUDA's
        able[name.lower()] = [_translated(device) for device in able[name.lower()]]

    return classmethod(call)


def _get_backend(original: Callable[..., Any]) -> Callable[..., Any]:
    """Tell a program that asked for nccl, for CUDA, that it has it."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        if not _seen_by_program():
            return found
        ours = torch.distributed.Backend.default_device_backend_map[NAME]
        return _pairs(found, {NAME: "cuda"}, {ours: torch.distributed.Backend.NCCL})

    return call


def _mesh_device_type(original: Any) -> property:
    """Give ``DeviceMesh.device_type`` as ``device.type`` is given.

    Each mesh holds it itself in 2.6, the class has it in 2.13.
    """

    def read(mesh: Any) -> str:
        found: str = original.__get__(mesh) if original else vars(mesh)["device_type"]
        return "cuda" if found == NAME and _seen_by_program() else found

    def write(mesh: Any, device_type: str) -> None:
        vars(mesh)["device_type"] = device_type

    return property(read, None if original else write)


class _Engine(torch._C._ImperativeEngine):
    """Autograd's engine, which calls back in the context of who asked for it."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the thread that ends the backward that runs now."""
        super().queue_callback(_bound(callback))


def _is_cuda_storage(original: Any) -> Any:
    return property(lambda storage: _type_of(storage.device) == NAME if _sessions() else original.__get__(storage))


Replacement = tuple[Any, str, Callable[[Any], Any]]


def _replacements() -> Iterator[Replacement]:
    """Yield all that a context replaces, but for `_Facade`.

    It says whose attribute of which name becomes what of the original.
    """
    yield threading.Thread, "start", _start
    yield torch.autograd.function.BackwardCFunction, "apply", _bound
    yield torch.autograd.Variable, "_execution_engine", lambda engine: _Engine()
    yield torch.nn.DataParallel, "__init__", _refused_data_parallel
    yield torch, "Generator", _StandIn
    yield torch, "Stream", _StandIn
    yield torch, "Event", _StandIn
    yield torch, "set_default_tensor_type", _refused_default
    for name in ("is_autocast_enabled", "set_autocast_enabled"):
        yield torch, name, _unpositional
    for name in ("get_autocast_dtype", "set_autocast_dtype"):
        yield torch, name, functools.partial(_by_place, 0)
    yield torch, "get_autocast_gpu_dtype", _gpu("get_autocast_dtype")
    yield torch, "set_autocast_gpu_dtype", _gpu("set_autocast_dtype")
    for module in (torch.amp, torch.amp.autocast_mode):
        yield module, "is_autocast_available", functools.partial(_by_place, 0, "device_type")
    yield torch.amp.autocast_mode.autocast, "__init__", functools.partial(_by_place, 1, "device_type")
    yield torch.amp.autocast_mode, "_cast", functools.partial(_by_place, 1, "device_type")  # of custom_fwd's inputs
    yield torch.amp.grad_scaler.GradScaler, "__init__", _scaler
    yield torch.profiler.profiler._KinetoProfile, "__init__", _activities
    yield torch.autograd.profiler.profile, "__init__", _device_of_profile
    yield torch.utils.data.dataloader.DataLoader, "__init__", functools.partial(_by_place, "pin_memory_device")
    yield torch.backends.cuda, "is_built", _true
    for kind in (torch.storage.UntypedStorage, torch.storage.TypedStorage):
        yield kind, "is_cuda", _is_cuda_storage
    if torch.distributed.is_available():
        yield from _of_distributed()


def _of_distributed() -> Iterator[Replacement]:
    import torch.distributed.device_mesh as mesh
    import torch.distributed.distributed_c10d as c10d

    yield c10d.Backend, "__new__", _backends
    yield c10d.Backend, "register_backend", _register_backend
    for module in (torch.distributed, c10d):
        yield module, "is_nccl_available", _true
        yield module, "get_backend", _get_backend
        yield module, "get_backend_config", _get_backend
    yield mesh.DeviceMesh, "device_type", _mesh_device_type
    yield mesh.DeviceMesh, "__init__", functools.partial(_by_place, 1, "device_type")
    for module in (torch.distributed, mesh):
        if hasattr(module, "init_device_mesh"):
            yield module, "init_device_mesh", functools.partial(_by_place, 0, "device_type")


def _by_place(*names_and_original: Any) -> Any:
    """`_inside` with the original last, for ``functools.partial``."""
    *names, original = names_and_original
    return _inside(original, *names)


def _device_type(device: torch.device) -> str:
    """``device.type``: a program is told ``cuda``, PyTorch what is true."""
    found = _type_of(device)
    return "cuda" if found == NAME and _seen_by_program() else found


def _restore_location(storage: Any, location: str) -> Any:
    """Restore a storage of a checkpoint that lay on CUDA.

    One for ``map_location="cuda"`` is restored too. This is a registered deserializer.
    """
    if not _CUDA.match(location) or not _sessions():
        return None
    return torch.serialization._deserialize(NAME, storage, _translated(location))  # type: ignore[no-untyped-call]


# --- putting all that there, and back ---

_lock = threading.RLock()
_entered = 0
_undo = contextlib.ExitStack()


def _replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute until `_undo` runs; afterwards it is where and what it was."""
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    if before is _MISSING:
        _undo.callback(delattr, owner, name)
    else:
        _undo.callback(setattr, owner, name, before)


def _set_device_type(value: Any) -> None:
    """Change ``torch.device.type`` by its dictionary, as setattr refuses C types."""
    _device_slots["type"] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.device))


def _install() -> None:
    original = _device_slots["type"]
    _undo.callback(_set_device_type, original)
    _set_device_type(property(_device_type, doc=original.__doc__))
    for owner, name, make in _replacements():
        found = getattr(owner, name) if isinstance(owner, types.ModuleType) else _attribute(owner, name)
        _replace(owner, name, make(found))
    for part in _FACADES:
        _show(f"torch.cuda{part}")
    registry = torch.serialization._package_registry
    entry = (0, lambda storage: None, _restore_location)
    registry.insert(0, entry)
    _undo.callback(lambda: registry.remove(entry) if entry in registry else None)
    _undo.callback(_pristine.clear)


def _show(name: str) -> None:
    """Let the module ``name`` answer with the device's, once it is imported."""
    with _lock:
        module = sys.modules.get(name)
        if module is None or name in _pristine or name.removeprefix("torch.cuda") not in _FACADES or not _entered:
            return
        _pristine[name] = dict(vars(module))
        _undo.callback(setattr, module, "__class__", type(module))
        module.__class__ = _Facade


def _attribute(owner: type, name: str) -> Any:
    """Return an attribute of a class as its dictionary, or that of a base, has it.

    None without one. No descriptor is called.
    """
    return next((vars(base)[name] for base in owner.__mro__ if name in vars(base)), None)


@contextlib.contextmanager
def _joined(session: _Session) -> Iterator[None]:
    """Put this thread into ``session`` for a ``with`` block."""
    known: list[_Session] = _thread.__dict__.setdefault("sessions", [])
    known.append(session)
    try:
        with _Mode(session):
            yield
    finally:
        known.remove(session)
        if not known and (held := _thread.__dict__.pop("sanitizer", None)):
            held.disable()


class as_cuda:
    """Let ``cuda`` mean this device inside a ``with`` block.

    It holds in this thread and those that it starts.

    ``torch.cuda``, ``"cuda:0"``, ``Tensor.cuda``, ``is_cuda``, ``autocast("cuda")``, GradScaler, nccl, and what a
    checkpoint says of CUDA. Blocks nest; when the last one ends nothing in PyTorch is other than it was before the
    first. With ``warn`` each use of ``torch.cuda`` warns (DeprecationWarning) with names that need no context.
    """

    def __init__(self, warn: bool = False) -> None:
        self._warn = warn
        self._stacks: list[contextlib.ExitStack] = []

    def __enter__(self) -> types.ModuleType:
        with contextlib.ExitStack() as stack:
            stack.callback(_leave)
            _enter()
            session = _Session(self._warn, self)
            _open.append(session)
            stack.callback(session.close)
            stack.enter_context(_joined(session))
            self._stacks.append(stack.pop_all())
        return sys.modules[f"torch.{NAME}"]

    def __exit__(self, *error: object) -> None:
        self._stacks.pop().close()


def _enter() -> None:
    global _entered
    with _lock:
        _entered += 1
        if _entered == 1:
            try:
                _install()
            except BaseException:
                _undo.close()
                raise


def _leave() -> None:
    global _entered
    with _lock:
        _entered -= 1
        if _entered == 0:
            _undo.close()


# --- whole programs ---


def enter_if_asked() -> bool:
    """Open a context for the process where ``DECOUPLE_AS_CUDA`` names this device.

    It stays for the rest of the process. Called at loading, before anything else watches this device: what CUDA's
    sanitizer ends is the newest mode. Returns whether this device is watched in its place. Another name warns
    (RuntimeWarning): the program would else fail as if nothing had been said.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked == NAME:
        as_cuda(warn=os.environ.get(WARN) == "1").__enter__()
        upstream = sys.modules.get(_SANITIZER)
        if upstream is not None and upstream.cuda_sanitizer.enabled:  # by PyTorch, of TORCH_CUDA_SANITIZER
            upstream.cuda_sanitizer.disable()
            _enable_sanitizer()
            return True
    elif asked:
        warnings.warn(f"{VARIABLE}={asked}: this backend is {NAME}, so cuda stays CUDA", RuntimeWarning, stacklevel=2)
    return False


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a script, or with ``-m`` a module, whose ``cuda`` means this device.

    What it starts is told, too.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help") or given == ["-m"]:
        command = f"python -m {_PACKAGE}.as_cuda"
        print(f"usage: {command} SCRIPT [ARGUMENT ...]\n       {command} -m MODULE [ARGUMENT ...]")
        raise SystemExit(0 if given and given[0] in ("-h", "--help") else 2)
    already = os.environ.get(VARIABLE) == NAME
    os.environ[VARIABLE] = NAME
    with contextlib.nullcontext() if already else as_cuda(warn=os.environ.get(WARN) == "1"):
        if given[0] == "-m":
            sys.argv = given[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(given[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = given
            sys.path.insert(0, str(Path(given[0]).resolve().parent))
            runpy.run_path(given[0], run_name="__main__")
