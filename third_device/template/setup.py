"""Builds torch_newdevice: the layer in ../common, the driver and kernels in csrc/, the operators in operators.yaml.

Against the PyTorch that is installed: pip install --no-build-isolation .
"""

import os
import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
LAYER = Path(os.environ.get("THIRD_DEVICE_COMMON", ROOT.parent / "common")).resolve()
sys.path.insert(0, str(LAYER))

from backend_build.extension import backend  # noqa: E402

setup(**backend("newdevice", ROOT, LAYER, sources=["csrc/driver.cpp", "csrc/kernels.cpp"], simulated=True))
