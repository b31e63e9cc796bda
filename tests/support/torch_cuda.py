"""What stage 2 says of itself: `build_info.json` of the real wheel of 2.6.0, as far as its metadata needs it."""

from __future__ import annotations

from typing import Any

INFO: dict[str, Any] = {
    "core": "built",
    "core_version": "2.6.0+decoupled",
    "torch": "2.6.0",
    "version": "2.6.0+cu124",
    "cuda": "12.4",
    "libraries": {"cudnn": "9.1.0", "nccl": "2.22.3", "magma": "off", "cusparselt": "off", "cudss": "off"},
    "python": "cpython-313-x86_64-linux-gnu",
}
