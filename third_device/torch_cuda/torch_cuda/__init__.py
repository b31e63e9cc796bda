"""CUDA for a PyTorch that was built without it.

Nothing here needs to be imported by hand: ``import torch`` finds this package and loads it at the right moment (see
``_preload`` and ``_autoload``). Importing it does not import torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["__version__", "build_info", "cmake_prefix_path", "include_dir", "library_dir"]

_HERE = Path(__file__).absolute().parent
"""Where the libraries are, too. A link is not followed: `pip install -e` has one to this file beside them."""


def build_info() -> dict[str, Any]:
    """Return what this package was built from.

    That is torch and CUDA version, kind of core, architectures, libraries.
    """
    info: dict[str, Any] = json.loads((_HERE / "build_info.json").read_text(encoding="utf-8"))
    return info


def library_dir() -> Path:
    """Return the folder of this package's libraries.

    They are libc10_cuda, libtorch_cuda, libtorch_kineto_cuda, libtorch_python_cuda and libcaffe2_nvrtc.
    """
    return _HERE / "lib"


def include_dir() -> Path:
    """Return the folder of the CUDA headers.

    They are ``ATen/cuda``, ``c10/cuda``, ``torch/csrc/cuda``, ...
    """
    return _HERE / "include"


def cmake_prefix_path() -> Path:
    """For ``CMAKE_PREFIX_PATH``: ``find_package(TorchCUDA)`` then works."""
    return _HERE / "share" / "cmake"


def __getattr__(name: str) -> str:
    if name == "__version__":
        return str(build_info()["version"])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
