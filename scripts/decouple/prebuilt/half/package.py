"""Preload the package ``torch_core_half`` beside an official wheel's CPU half.

It is an entry point of ``torch.backends.preload``. Called after torch_cuda's own (``cuda`` sorts before
``cuda_core_half``), while torch_cuda's libraries are in the process and libtorch_python is not.
"""

import importlib
import sys
from pathlib import Path
from typing import Any

import torch_cuda
from torch_cuda import _libraries


def preload() -> None:
    """Take the core's own CUDA bindings away, and put our bindings in.

    What takes them away comes first in the process, our bindings second.
    """
    torch_folder = Path(next(iter(sys.modules["torch"].__path__)))
    core: Any = importlib.import_module("torch_cuda._core_preload")
    folders = _libraries.search_folders(torch_folder, core.installed_folders())
    for library in (
        Path(__file__).with_name("libwithout_cuda.so"),
        torch_cuda.library_dir() / "libtorch_python_cuda.so",
    ):
        _libraries.open_library(library, folders)
