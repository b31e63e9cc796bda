"""The torch_cuda project is not installed in the test environment; its folder goes on the import path."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3] / "third_device" / "torch_cuda"
sys.path.insert(0, str(PROJECT))
