"""Run an action on a module when it is imported.

A stock torch does not do that by itself.

The layer has a finder of its own (``third_device/layer/python/__init__.py``): a backend is built on the layer or on the
CUDA key, no wheel has both, and neither can import the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ModuleFinder", "before_body", "when_imported"]


class ModuleFinder(MetaPathFinder):
    """Finds one module where it is, and lets *action* have it.

    That is before or after its body runs. Many programs ask for a spec only to see whether there is such a module, and
    again when they import it: so this finder stays.
    """

    def __init__(self, name: str, action: Callable[[ModuleType], None], *, before: bool) -> None:
        self.name = name
        self.action = action
        self.before = before

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]  # which may have another of ours
        found = (each.find_spec(fullname, path, target) for each in behind if hasattr(each, "find_spec"))
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._wrapped(spec.loader)  # type: ignore[method-assign]
        return spec

    def _wrapped(self, loader: Loader) -> Any:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if self.before:
                self.action(module)
            execute(module)
            if not self.before:
                self.action(module)

        return exec_module


def before_body(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call *action* with *name* before its body runs; at once if imported already."""
    _install_finder(name, action, before=True)


def when_imported(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call *action* with *name* once it is imported; at once if it is already."""
    _install_finder(name, action, before=False)


def _install_finder(name: str, action: Callable[[ModuleType], None], *, before: bool) -> None:
    present = sys.modules.get(name)
    if present is not None:
        action(present)
        return
    there = ((finder.name, finder.before) for finder in sys.meta_path if isinstance(finder, ModuleFinder))
    if (name, before) not in there:
        sys.meta_path.insert(0, ModuleFinder(name, action, before=before))
