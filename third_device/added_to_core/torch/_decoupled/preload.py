"""Loading of device backends around the creation of ``torch._C``.

A backend that compiles against torch's C++ libraries (CUDA, above all) must be in the process *before* ``torch._C`` is
created: ATen asks for the CUDA hooks while it creates the module and remembers "none" for good
(``aten/src/ATen/detail/CUDAHooksInterface.cpp``). Its Python bindings need ``libtorch_python`` and come right *after*.
So ``torch/__init__.py`` calls `load_libraries` before and `fill_bindings` after.

A backend takes part through the entry point group ``torch.backends.preload``. The target is a callable without
arguments, in a module that does not import torch. It opens the backend's libraries with ``RTLD_GLOBAL`` and returns the
dotted name of its extension module with bindings, or None if it has none. ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` leaves
all backends out, as it does for upstream's own group ``torch.backends``.

Backends are looked for where torch is installed, in Python's own folders for packages, and in absolute folders that
``PYTHONPATH`` names: see `installed_folders`. The folder that a program was started in is none of them, although Python
has it first on ``sys.path``: a file there must not run because somebody imports torch beside it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["GROUP", "cuda_folder", "fill_bindings", "fill_module", "installed_folders", "load_libraries"]

GROUP = "torch.backends.preload"
OPT_OUT = "TORCH_DEVICE_BACKEND_AUTOLOAD"
CUDA_MODULE = "torch.cuda._CUDAC"
"""Where the RFC (pytorch/rfcs, pull request 82) has the CUDA bindings."""

_waiting: list[tuple[str, str]] = []  # entry point name, extension module: loaded, bindings not yet filled in


def load_libraries() -> None:
    """Call every entry point of the group, to be done before ``torch._C`` is imported.

    Raises RuntimeError, naming the backend and the opt-out, if one fails.
    """
    _waiting.clear()
    if os.environ.get(OPT_OUT, "1") != "1":
        return
    for entry in _entry_points():
        try:
            module = _load_entry(entry)()
        except Exception as error:
            raise RuntimeError(_explain_failure(entry.name, "load", error)) from error
        if module is not None:
            _waiting.append((entry.name, module))


def fill_bindings() -> None:
    """Import the extension modules that `load_libraries` was told of.

    Their names are put into ``torch._C``. Raises RuntimeError, naming the backend and the opt-out, if one fails or if
    two bring the CUDA bindings.
    """
    while _waiting:
        backend, name = _waiting.pop(0)
        try:
            bindings = _import_module(name)
        except Exception as error:
            raise RuntimeError(_explain_failure(backend, "import the bindings of", error)) from error
        if hasattr(bindings, "_cuda_getDeviceCount"):
            _claim_cuda(backend, bindings)
        fill_module(sys.modules["torch._C"], bindings)


def fill_module(target: ModuleType, source: ModuleType) -> None:
    """Give ``target`` every name of ``source`` but those of the import system.

    Sub-modules are filled name by name. What ``target`` had under such a name is replaced: a core without CUDA says
    "no" there, the bindings know better. Classes and functions say from then on that they are ``target``'s, as they do
    in a torch built in one piece: signatures, pickles and messages show that name.
    """
    for name, value in list(vars(source).items()):
        if name.startswith("__"):
            continue
        present = getattr(target, name, None)
        if isinstance(value, ModuleType) and value.__name__.startswith(f"{source.__name__}."):
            path = f"{target.__name__}.{name}"
            if not isinstance(present, ModuleType):
                present = sys.modules.setdefault(path, ModuleType(path, value.__doc__))
                setattr(target, name, present)
            fill_module(present, value)
            continue
        if getattr(value, "__module__", None) == source.__name__:
            with contextlib.suppress(AttributeError, TypeError):  # types of the C API keep the name they were made with
                value.__module__ = target.__name__
        setattr(target, name, value)


def cuda_folder() -> str | None:
    """Return the folder of the package that brought the CUDA bindings.

    It is None without one. The folder has the package's ``include`` and ``lib``.
    """
    bindings = sys.modules.get(CUDA_MODULE)
    path = getattr(bindings, "__file__", None)
    return str(Path(path).parent) if path else None


def _claim_cuda(backend: str, bindings: ModuleType) -> None:
    """Make ``bindings`` importable as ``torch.cuda._CUDAC``.

    ``torch.version`` says what it was built for.
    """
    other = sys.modules.get(CUDA_MODULE)
    if other is not None and other is not bindings:
        raise RuntimeError(
            f"Two backends bring bindings for CUDA: {other.__name__} and {bindings.__name__} (backend {backend!r}). "
            f"Uninstall one, or set {OPT_OUT}=0 to load none."
        )
    sys.modules[CUDA_MODULE] = bindings
    version: Any = importlib.import_module("torch.version")
    for name, value in _torch_version(bindings).items():
        setattr(version, name, value)


def _torch_version(bindings: ModuleType) -> Mapping[str, str | None]:
    """Return what ``torch.version`` is to say.

    That is ``_torch_version`` of the bindings, or CUDA's version where they have none.

    Another vendor's number means something else (ROCm 6.4 is 60400), so its bindings say the names and values.
    """
    said: Mapping[str, str | None] | None = getattr(bindings, "_torch_version", None)
    compiled = getattr(bindings, "_cuda_getCompiledVersion", None)
    if said is not None or compiled is None:
        return said or {}
    number = compiled()  # CUDA_VERSION of cuda.h: 1000 * major + 10 * minor
    return {"cuda": f"{number // 1000}.{number % 1000 // 10}"}


def installed_folders() -> list[str]:
    """List the folders that packages are installed in, in the order of ``sys.path``.

    All are absolute. Those are torch's own, Python's site folders, what ``.pth`` files in them name (``pip install
    -e``), and absolute folders in ``PYTHONPATH``. Not the folder of the program or the current one, whatever
    ``sys.path`` says.
    """
    torch = sys.modules.get("torch")
    own = [str(Path(path).absolute().parent) for path in getattr(torch, "__path__", ())]
    site = sys.modules.get("site")  # not there in an embedded Python
    if site is not None:
        own += site.getsitepackages()
        if site.ENABLE_USER_SITE:
            own.append(site.getusersitepackages())
    if not sys.flags.ignore_environment:
        own += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own = [path for path in own if Path(path).is_absolute()]
    own += [path for folder in own for path in _named_by_pth(folder)]
    known = {os.path.realpath(path) for path in own}
    found = [path for path in sys.path if Path(path).is_absolute() and os.path.realpath(path) in known]
    return list(dict.fromkeys([*found, *own[:1]]))


def _named_by_pth(folder: str) -> Iterator[str]:
    """List the folders that ``.pth`` files in ``folder`` put on ``sys.path``."""
    for file in sorted(Path(folder).glob("*.pth")):
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text("utf-8").splitlines():
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    yield os.path.join(folder, line.rstrip())  # noqa: PTH118 - an absolute one stays itself


def _entry_points() -> list[metadata.EntryPoint]:
    """List the group's entry points by name, whatever the order of directories.

    Of a project that is installed in two folders the first counts, as for ``import``.
    """
    found: dict[str, list[metadata.EntryPoint]] = {}
    for distribution in metadata.distributions(path=installed_folders()):
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
        if entries:
            found.setdefault(distribution.metadata["Name"], entries)
    return sorted((entry for entries in found.values() for entry in entries), key=lambda entry: entry.name)


def _load_entry(entry: metadata.EntryPoint) -> Any:
    """Import and return what an entry point names."""
    name, _, attribute = entry.value.partition("[")[0].partition(":")
    found: Any = _import_module(name.strip())
    for part in filter(None, attribute.strip().split(".")):
        found = getattr(found, part)
    return found


def _import_module(name: str) -> ModuleType:
    """Import a module of a package installed or imported. Raises ImportError."""
    top = name.partition(".")[0]
    if top not in sys.modules:
        # before Python 3.12 one may have find_module alone, as that of six has
        finders = (each for each in sys.meta_path if each is not PathFinder and hasattr(each, "find_spec"))
        others = (finder.find_spec(top, None) for finder in finders)
        spec = PathFinder.find_spec(top, installed_folders()) or next(filter(None, others), None)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        sys.modules[top] = importlib.util.module_from_spec(spec)
        try:
            if spec.loader is not None:
                spec.loader.exec_module(sys.modules[top])
        except BaseException:
            sys.modules.pop(top, None)
            raise
    return importlib.import_module(name)


def _explain_failure(backend: str, what: str, error: Exception) -> str:
    return (
        f"Failed to {what} the backend {backend!r} ({GROUP}): {error}. "
        f"Set {OPT_OUT}=0 to import torch without its backends."
    )
