"""Measure the cost of the layer for third-party backends.

It compares the template (torch_sim) with plain CPU tensors; ratios of one run.

    python scripts/bench/backend.py [--json FILE]

Dispatch (a view, an operator with a kernel, one that falls back), the caching allocator against the CPU's, which is
malloc (``empty``), and copies against a copy between two host buffers. torch_sim and its PyTorch come from the cache of
``tests/contract``; the measuring is ``third_device_contract.bench``, which any backend can be held against.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "contract"))

import backend_env
from _timing import run_bench


def measure_backend() -> dict[str, Any]:
    """Measure the ratios and their releases. Raises NoTorchError, CalledProcessError."""
    interpreter = backend_env.python()
    contract = backend_env.install(interpreter, backend_env.THIRD_DEVICE / "contract")
    packages = [backend_env.install_sim(interpreter), contract]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, packages)))
    command = [str(interpreter), "-m", "third_device_contract.bench", "--device", "sim"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=packages[0])
    return {"bench": "backend", **json.loads(done.stdout)}


if __name__ == "__main__":
    run_bench(__doc__, measure_backend)
