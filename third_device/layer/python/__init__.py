"""The Python half of the layer.

It is packaged inside every backend as ``torch_<name>._layer``. It is copied into the backend's wheel and never shared,
so that two backends built from different checkouts do not meet.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from collections.abc import Iterable
from typing import Any

CHOICE = "TORCH_DEVICE_BACKEND"
GROUP = "torch.backends"
"""The entry points that ``import torch`` loads."""
replaced = types.SimpleNamespace()
"""What the layer had under the names that the vendor's functions took, by name: these may call it."""


class BackendLoadError(ImportError):
    """The backend cannot work with this PyTorch; the message says with which."""


def _line(version: str) -> tuple[str, ...]:
    """Return major and minor of a PyTorch release.

    All of their patch releases have one C++ interface. With the patch of one that is not released yet (``2.14.0a0``),
    whose interface still moves.
    """
    parts = version.split("+")[0].split(".")
    released = len(parts) == 3 and parts[2].isdigit()
    return tuple(parts[:2] if released else parts)


def activate(package: str) -> types.ModuleType | None:
    """Make the backend ``package`` usable as ``torch.<name>``.

    ``package`` is its import name. More calls change nothing.

    Returns None while ``import torch`` loads backends and ``$TORCH_DEVICE_BACKEND`` chose another one: PyTorch has one
    key for private backends. Raises BackendLoadError when another one holds it or was chosen, when nobody has the name
    that was chosen, or when this one was built for another line of releases of PyTorch (2.13 for 2.12), before anything
    of it is loaded, or cannot be loaded on this one.
    """
    import torch

    info = importlib.import_module(f"{package}._build_info")
    name: str = info.NAME
    if not _is_chosen(package, name, loading=getattr(torch.__spec__, "_initializing", False)):
        return None
    if _line(torch.__version__) != _line(info.BUILT_FOR):
        raise BackendLoadError(
            f"{package} {info.VERSION} was built for torch {info.BUILT_FOR}, but torch {torch.__version__} is "
            f"installed; install the matching {package}, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to do without it",
            name=package,
        )
    ready = sys.modules.get(f"torch.{name}")
    if ready is not None:
        return ready
    holder = torch._C._get_privateuse1_backend_name()
    if holder not in ("privateuseone", name):
        raise BackendLoadError(
            f"{package}: this process has the backend '{holder}' already, and PyTorch has one key for private ones; "
            f"set {CHOICE}={name} (or {CHOICE}={holder}) before torch is imported to choose, or uninstall one of them",
            name=package,
        )
    torch.utils.rename_privateuse1_backend(name)
    binary = _load_binary(package, info)
    importlib.import_module(f"{package}._layer.python_driver").install_driver(package, binary)
    binary.offer_graphs()
    if binary.records_work():
        importlib.import_module(f"{package}._layer.profiler").register()
    device = importlib.import_module(f"{package}._layer.device")
    names = ("amp", "memory", "nvtx", "random", "streams", *(("graphs",) if binary.has_graphs() else ()))
    _add_functions(package, device, [getattr(device, part) for part in names])
    torch._register_device_module(name, device)
    sys.modules.update({f"torch.{name}.{part}": getattr(device, part) for part in names})  # a part may be the vendor's
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    importlib.import_module(f"{package}._layer.sharing").register()
    _distributed(package)
    _when_imported("torch._dynamo.device_interface", f"{package}._layer.compile")
    watched = False
    if os.environ.get("DECOUPLE_AS_CUDA"):
        watched = importlib.import_module(f"{package}._layer.as_cuda").enter_if_asked()
    if not watched and os.environ.get(f"TORCH_{name.upper()}_SANITIZER", "0") not in ("", "0"):
        importlib.import_module(f"{package}._layer.sanitizer").Sanitizer().enable()
    return device


def _load_binary(package: str, info: types.ModuleType) -> types.ModuleType:
    """Load the backend's libraries.

    Raises BackendLoadError where those of another patch release lack what they are linked against.
    """
    import torch

    try:
        return importlib.import_module(f"{package}._C")
    except ImportError as error:
        if torch.__version__ == info.BUILT_FOR:
            raise
        raise BackendLoadError(
            f"{package} {info.VERSION} was built for torch {info.BUILT_FOR} and does not load with torch "
            f"{torch.__version__} ({error}); build it anew with that one",
            name=package,
        ) from error


def _is_chosen(package: str, name: str, *, loading: bool) -> bool:
    """Return whether ``$TORCH_DEVICE_BACKEND`` leaves the key to this backend.

    It is unset, its name, or its package's. ``loading``: ``import torch`` loads all backends, and those that were not
    chosen stay out. Otherwise somebody imports this one himself. Raises BackendLoadError.
    """
    chosen = os.environ.get(CHOICE, "").strip()
    if chosen in ("", name, package):
        return True
    known = sorted(entry.name for entry in importlib.metadata.entry_points(group=GROUP))
    if chosen not in known and f"torch_{chosen}" not in known:
        raise BackendLoadError(
            f"{CHOICE}={chosen}: no such backend is installed; there are {', '.join(known) or 'none'}", name=package
        )
    if not loading:
        raise BackendLoadError(
            f"{package}: {CHOICE}={chosen} chose another backend, and PyTorch has one key for private backends; set "
            f"{CHOICE}={name} before torch is imported",
            name=package,
        )
    return False


def _add_functions(package: str, device: types.ModuleType, parts: Iterable[types.ModuleType]) -> None:
    """Make the vendor's operators and functions attributes of ``torch.<name>``.

    They are the operators with ``python:`` in operators.yaml, and the names of ``<package>.functions``, the vendor's
    own file. What stands in ``__all__`` of one of the parts, ``torch.<name>.memory`` say, is replaced there, too.
    ``replaced`` keeps the layer's.
    """
    import torch

    own: dict[str, Any] = {}
    for each, operator in importlib.import_module(f"{package}._C").python_functions():
        namespace, _, op = operator.partition("::")
        own[each] = getattr(getattr(torch.ops, namespace), op)
    if importlib.util.find_spec(f"{package}.functions") is not None:
        functions = importlib.import_module(f"{package}.functions")
        own.update({each: getattr(functions, each) for each in functions.__all__})
    for each, function in own.items():
        for module in (device, *(part for part in parts if each in getattr(part, "__all__", ()))):
            if hasattr(module, each):
                setattr(replaced, each, getattr(module, each))
            setattr(module, each, function)


def _distributed(package: str) -> None:
    """Register the backend's collectives, if PyTorch has torch.distributed."""
    import torch.distributed

    if torch.distributed.is_available():
        importlib.import_module(f"{package}._layer.distributed").register()


def _when_imported(name: str, follower: str) -> None:
    """Call ``register()`` of ``follower`` right after module ``name`` is imported.

    ``follower`` is imported for that. ``name`` may have been imported already. Compilation takes seconds to import, and
    most programs never need it.
    """
    if name in sys.modules:
        importlib.import_module(follower).register()
        return
    sys.meta_path.insert(0, _Follow(name, follower))


class _Follow:
    """A finder that finds one module the usual way and then runs its follower.

    It stays: many programs ask for a spec only to see whether there is such a module. ``torch_cuda._import_hook`` has
    the same for backends on the CUDA key. Their wheels are without this layer.
    """

    def __init__(self, name: str, follower: str) -> None:
        self._name, self._follower = name, follower

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (each.find_spec(name, path, target) for each in behind if hasattr(each, "find_spec"))
        spec = next(filter(None, found), None)
        if spec is None or spec.loader is None:
            return spec
        loader, follower = spec.loader, self._follower
        usual = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            usual(module)
            importlib.import_module(follower).register()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
