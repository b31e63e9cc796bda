"""Waits for ``torch._C`` of a torch that knows nothing of us: ``torch_cuda.pth`` calls `install` when Python starts.

So it imports nothing that Python has not imported itself, and does nothing but compare a name until torch is imported.
"""

import os
import sys

__all__ = ["Waiting", "install"]


class Waiting:
    """A finder of ``sys.meta_path`` that hands ``torch._C`` to `torch_cuda._autoload`, and nothing else."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> object:
        if fullname != "torch._C" or os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
            return None
        if "torch_cuda" not in sys.modules and not import_installed():
            return None
        from torch_cuda._autoload import CoreFinder

        return CoreFinder().find_spec(fullname, path, target)


def import_installed() -> bool:
    """Import the ``torch_cuda`` that is installed beside this file, not one in the folder a program was started in.

    Returns whether there is one.
    """
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    folders = [os.path.dirname(os.path.abspath(__file__))]  # noqa: PTH100, PTH120 - pathlib would be imported for this
    named = os.path.join(folders[0], "__editable__.torch_cuda.pth")  # noqa: PTH118
    if os.path.isfile(named):  # noqa: PTH113
        with open(named, encoding="utf-8") as file:  # noqa: PTH123
            folders.append(file.read().strip())
    spec = PathFinder.find_spec("torch_cuda", folders)
    if spec is None or spec.loader is None:
        return False
    sys.modules["torch_cuda"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(sys.modules["torch_cuda"])
    except BaseException:
        sys.modules.pop("torch_cuda", None)
        raise
    return True


def install() -> None:
    """Put the finder in place; a second call does nothing. The opt-out is read when torch is imported."""
    if Waiting not in sys.meta_path:
        sys.meta_path.insert(0, Waiting)
