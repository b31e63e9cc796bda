"""Let ``torch.utils.cpp_extension`` find what this package has.

``CUDAExtension``, ``load``, ``load_inline`` and Inductor (C++ wrapper, AOTInductor, CUTLASS) ask that module, and it
knows torch's own folders. The patched core's asks for this package's in most places; what is there already is not added
twice, so both kinds of core are treated alike. Ours stand before torch's, as when this package was compiled: for a
vendor whose headers differ from an unmodified core's, it has them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

from . import include_dir, library_dir

__all__ = ["extend_paths"]


def extend_paths(cpp_extension: ModuleType) -> None:
    """Give ``torch.utils.cpp_extension`` our folders where it takes torch's for CUDA."""
    module: Any = cpp_extension
    # headers for C++ alone too: torch/csrc/cuda/memory_snapshot.h and its like need no toolkit
    module.include_paths = _replace_paths(module.include_paths, str(include_dir()), {"cpu", "cuda"})
    module.library_paths = _replace_paths(module.library_paths, str(library_dir()), {"cuda"})
    if hasattr(module, "_prepare_ldflags"):
        module._prepare_ldflags = _replace_flags(module._prepare_ldflags, str(library_dir()))


def _replace_paths(paths: Callable[..., list[str]], ours: str, devices: Collection[str]) -> Callable[..., list[str]]:
    """Replace ``include_paths`` or ``library_paths``, which answer with folders.

    Ours is one of them for ``devices``.
    """

    @functools.wraps(paths)
    def with_ours(device_type: str = "cpu", *arguments: Any, **named: Any) -> list[str]:
        found = paths(device_type, *arguments, **named)
        return [ours, *found] if device_type in devices and ours not in found else found

    return with_ours


def _replace_flags(prepare: Callable[..., list[str]], ours: str) -> Callable[..., list[str]]:
    """Replace ``_prepare_ldflags``, the linker's line of ``load``.

    It is that of ``load_inline`` too, and does not ask ``library_paths``. It names torch's folder alone (``-L``), and
    for a program of its own (``is_standalone``) as run path too. Where its arguments stand differs between releases.
    """
    signature = inspect.signature(prepare)

    @functools.wraps(prepare)
    def with_ours(*arguments: Any, **named: Any) -> list[str]:
        flags = prepare(*arguments, **named)
        given = signature.bind(*arguments, **named).arguments
        run_path = [f"-Wl,-rpath,{ours}"] if given.get("is_standalone") else []
        wanted = [f"-L{ours}", *run_path] if given.get("with_cuda") else []
        return [*(flag for flag in wanted if flag not in flags), *flags]

    return with_ours
