"""Waits for ``torch._C`` of a torch that knows nothing of us: ``torch_cuda.pth`` calls `install` when Python starts.

So it imports nothing that Python has not imported itself, and does nothing but compare a name until torch is imported.
"""

import sys

__all__ = ["Waiting", "install"]


class Waiting:
    """A finder of ``sys.meta_path`` that hands ``torch._C`` to `torch_cuda._autoload`, and nothing else."""

    @staticmethod
    def find_spec(fullname: str, path: object = None, target: object = None) -> object:
        if fullname != "torch._C":
            return None
        from torch_cuda._autoload import CoreFinder

        return CoreFinder().find_spec(fullname, path, target)


def install() -> None:
    """Put the finder in place; a second call does nothing. The opt-out is read when torch is imported."""
    if Waiting not in sys.meta_path:
        sys.meta_path.insert(0, Waiting)
