"""A Python with PyTorch for CUDA, and the variables with which it runs on the simulated device.

Both are what the tests of the contract make and keep in the cache: who runs second neither downloads nor compiles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_cache, find_project
from tests.support.tools import leave_test

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

import backend_env


def require_cuda_python() -> Path:
    """The Python that ``SIMCUDA_TORCH`` names, or one with the official wheel; the test is left where there is none."""
    try:
        return backend_env.cuda_python()
    except backend_env.NoTorchError as error:
        leave_test(f"the official wheel for CUDA cannot be installed here: {error}")


@pytest.fixture(scope="session")
def cuda_python() -> Path:
    """A Python with PyTorch for CUDA, of the simulated device."""
    return require_cuda_python()


def simulated_variables() -> dict[str, str]:
    """Those of a process that runs ``python -m simcuda run``."""
    own = {"PYTHONPATH": str(find_project() / "scripts"), "OMP_NUM_THREADS": "1"}
    return {"SIMCUDA_CACHE": str(find_cache() / "simcuda"), **os.environ, **own}


def library_variables() -> dict[str, str]:
    """Those with which that Python imports its PyTorch without the device: it has next to none of NVIDIA's libraries.

    The stand-ins need their own libcudart, and torch would find NVIDIA's beside it before. A Python of SIMCUDA_TORCH
    has its libraries.
    """
    if os.environ.get("SIMCUDA_TORCH"):
        return {}
    build = [sys.executable, "-m", "simcuda", "build", "--no-torch"]
    done = subprocess.run(build, env=simulated_variables(), capture_output=True, text=True, check=True)
    folder = Path(done.stdout.splitlines()[-1])
    return {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(next(folder.glob("libcudart.so.*")))}
