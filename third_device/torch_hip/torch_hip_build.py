"""Build torch_hip by PEP 517.

The backend is torch_cuda's (``../torch_cuda/torch_cuda_build``), told of this folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ["TORCH_CUDA_PROJECT"] = str(HERE)
sys.path.insert(0, str(HERE.parent / "torch_cuda"))
from torch_cuda_build.backend import build_editable, build_sdist, build_wheel, main  # noqa: E402

__all__ = ["build_editable", "build_sdist", "build_wheel", "main"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
