"""``python -m third_device.tools.wrapped_cmake``, or ``python path/to/wrapped_cmake``."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a folder: become the package, so that the relative imports below work
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    __package__ = "wrapped_cmake"
    __import__(__package__)

from .commands import main

if __name__ == "__main__":
    sys.exit(main())
