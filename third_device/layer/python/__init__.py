"""The Python half of the layer, packaged inside every backend as ``torch_<name>._layer``.

It is copied into the backend's wheel and never shared, so that two backends built from different checkouts do not meet.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any


class BackendLoadError(ImportError):
    """The backend cannot work with the PyTorch that is installed; the message says which one it wants."""


def _release(version: str) -> tuple[str, ...]:
    """Major, minor and patch of a PyTorch version: what its C++ interface depends on."""
    return tuple(version.split("+")[0].split(".")[:3])


def activate(package: str) -> types.ModuleType:
    """Make the backend ``package`` (its import name) usable as ``torch.<name>``; more calls change nothing.

    Raises BackendLoadError when it was built for another release of PyTorch, before anything of it is loaded, and
    RuntimeError when another backend already holds PrivateUse1.
    """
    import torch

    info = importlib.import_module(f"{package}._build_info")
    name: str = info.NAME
    if _release(torch.__version__) != _release(info.BUILT_FOR):
        raise BackendLoadError(
            f"{package} {info.VERSION} was built for torch {info.BUILT_FOR}, but torch {torch.__version__} is "
            f"installed; install the matching {package}, or set TORCH_DEVICE_BACKEND_AUTOLOAD=0 to do without it",
            name=package,
        )
    ready = sys.modules.get(f"torch.{name}")
    if ready is not None:
        return ready
    torch.utils.rename_privateuse1_backend(name)
    if importlib.import_module(f"{package}._C").records_work():
        importlib.import_module(f"{package}._layer.profiler").register()
    device = importlib.import_module(f"{package}._layer.device")
    torch._register_device_module(name, device)
    for part in ("amp", "memory", "nvtx", "random", "streams"):
        sys.modules[f"torch.{name}.{part}"] = getattr(device, part)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    importlib.import_module(f"{package}._layer.sharing").register()
    _distributed(package)
    _when_imported("torch._dynamo.device_interface", f"{package}._layer.compile")
    if os.environ.get("DECOUPLE_AS_CUDA"):
        importlib.import_module(f"{package}._layer.as_cuda").enter_if_asked()
    return device


def _distributed(package: str) -> None:
    """Registers the backend's collectives; a PyTorch built without torch.distributed has none."""
    import torch.distributed

    if torch.distributed.is_available():
        importlib.import_module(f"{package}._layer.distributed").register()


def _when_imported(name: str, follower: str) -> None:
    """Import ``follower`` and call its ``register()`` right after the module ``name`` was imported, now or later.

    Compilation takes seconds to import, and most programs never need it.
    """
    if name in sys.modules:
        importlib.import_module(follower).register()
        return
    sys.meta_path.insert(0, _Follow(name, follower))


class _Follow:
    """A finder that finds one module the usual way and then runs its follower."""

    def __init__(self, name: str, follower: str) -> None:
        self._name, self._follower = name, follower

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader, follower = spec.loader, self._follower
        usual = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            usual(module)
            importlib.import_module(follower).register()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
