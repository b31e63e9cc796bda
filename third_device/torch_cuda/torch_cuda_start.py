"""Wait for ``torch._C`` of a torch that knows nothing of us.

``torch_cuda.pth`` calls `install` when Python starts. So it imports nothing that Python has not imported itself, and
does nothing but compare a name until torch is imported. Another vendor's package has this file under its own name: what
stands before ``_start`` is the package.
"""

import os
import sys

__all__ = ["CoreFinder", "install"]

PACKAGE = __name__.rpartition("_start")[0]


class CoreFinder:
    """A finder of ``sys.meta_path`` that hands only ``torch._C`` to `_autoload`."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> object:
        if fullname != "torch._C" or os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
            return None
        if PACKAGE not in sys.modules and not import_installed():
            return None
        from importlib import import_module

        return import_module(f"{PACKAGE}._autoload").find_core(fullname, path, target)


def import_installed() -> bool:
    """Import the package that is installed beside this file.

    It is not one in the folder a program was started in. Returns whether there is one.
    """
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    folders = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120 - pathlib would be imported for this
    named = os.path.join(folders[0], f"__editable__.{PACKAGE}.pth")  # noqa: PTH118
    if os.path.isfile(named):  # noqa: PTH113
        with open(named, encoding="utf-8") as file:  # noqa: PTH123
            folders.append(file.read().strip())
    spec = PathFinder.find_spec(PACKAGE, folders)
    if spec is None or spec.loader is None:
        return False
    sys.modules[PACKAGE] = module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules[PACKAGE])
    except BaseException:
        sys.modules.pop(PACKAGE, None)
        raise
    return True


def install() -> None:
    """Put the finder in place, once. The opt-out is read when torch is imported."""
    if CoreFinder not in sys.meta_path:
        sys.meta_path.insert(0, CoreFinder)
