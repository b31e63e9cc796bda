"""Build torch_puone: its library by CMakeLists.txt, then its module.

The library has the operators of operators.yaml in it. Against the PyTorch that is installed: pip install
--no-build-isolation .
"""

import os
import sys
from pathlib import Path

from setuptools import setup

THIRD_DEVICE = Path(os.environ.get("THIRD_DEVICE", Path(__file__).resolve().parents[1])).resolve()
if not (THIRD_DEVICE / "layer").is_dir():
    sys.exit(f"torch_puone: {THIRD_DEVICE}/layer is missing; next: set THIRD_DEVICE to third_device of a checkout")
sys.path.insert(0, str(THIRD_DEVICE / "layer"))

from backend_build.extension import backend  # noqa: E402

setup(**backend("puone", Path(__file__).resolve().parent, THIRD_DEVICE))
