"""The package ``torch_core_half`` beside an official wheel's CPU half: entry point of ``torch.backends.preload``.

Called after torch_cuda's own (``cuda`` sorts before ``cuda_core_half``), while torch_cuda's libraries are in the
process and libtorch_python is not.
"""

import sys
from pathlib import Path

import torch_cuda
from torch_cuda import _libraries


def preload() -> None:
    """Put what takes the core's own CUDA bindings away first in the process, and our bindings second."""
    folders = _libraries.search_folders(Path(next(iter(sys.modules["torch"].__path__))))
    for library in (
        Path(__file__).with_name("libwithout_cuda.so"),
        torch_cuda.library_dir() / "libtorch_python_cuda.so",
    ):
        _libraries.open_library(library, folders)
