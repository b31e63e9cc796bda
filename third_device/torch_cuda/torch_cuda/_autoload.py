"""Give a *stock* torch the two calls of the patched one.

Its ``torch/__init__.py`` knows nothing of us.

A wheel for a stock core has ``torch_cuda.pth`` in site-packages: when Python starts it leaves the finder of
``torch_cuda_start``, which asks `find_core` here for ``torch._C``. When that extension module is about to be created
the backends' libraries are loaded, and right after it has run their bindings are filled in. A patched core makes the
same calls itself, of the same functions (``_core_preload`` is its ``torch._decoupled.preload``, copied into this
package), and is left alone.
"""

from __future__ import annotations

import importlib
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_core", "is_patched"]


class CoreLoader(ExtensionFileLoader):
    """Creates ``torch._C`` between two steps of the backends.

    Their libraries are loaded before, their bindings are filled in after.
    """

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _core_preload().load_libraries()
        return super().create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _core_preload().fill_bindings()


def _core_preload() -> Any:
    """Import the patched core's own module with torch, not when Python starts."""
    return importlib.import_module(f"{__package__}._core_preload")


def find_core(fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
    """Find ``torch._C`` with `CoreLoader` as loader, unless torch does our work."""
    if any(is_patched(Path(entry)) for entry in path or ()):
        return None
    spec = PathFinder.find_spec(fullname, path, target)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    spec.loader = CoreLoader(spec.loader.name, spec.loader.path)
    return spec


def is_patched(torch_folder: Path) -> bool:
    """Return whether that torch does our work: it is the patched one.

    Its first file says so. A folder ``_decoupled`` does not: pip leaves one behind, with what ``python -O`` wrote into
    it, when an unmodified torch takes a patched one's place, and below a patched one that is installed in place there
    is none.
    """
    first = torch_folder / "__init__.py"
    return first.is_file() and "torch._decoupled" in first.read_text("utf-8")
