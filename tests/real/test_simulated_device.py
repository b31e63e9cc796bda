"""The simulated device in front of a real CUDA build of PyTorch: SIMCUDA_TORCH names a Python that has one.

SIMCUDA_BUILT may name a folder that ``python -m simcuda build`` made for it; else that is done first.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project

PYTHON = os.environ.get("SIMCUDA_TORCH", "")
PROGRAMS = Path(__file__).parent / "simulated"
MNIST = find_project() / "scripts/simcuda/examples/mnist.py"

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="SIMCUDA_TORCH names no Python with a CUDA build of PyTorch"),
]


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (PROGRAMS / "values.py", (), "ok asserts"),
        (PROGRAMS / "nccl.py", (), "ok collectives"),
        (PROGRAMS / "profile.py", (), "ok activities"),
        (PROGRAMS / "fork.py", (), "ok child and parent"),
        (MNIST, (), "largest difference of a weight"),
        (MNIST, ("--amp",), "largest difference of a weight"),
    ],
    ids=["values", "collectives", "profile", "fork", "training", "training with amp"],
)
def test_a_program_has_the_cpus_values(program: Path, words: tuple[str, ...], said: str) -> None:
    built = os.environ.get("SIMCUDA_BUILT")
    command = [PYTHON, "-m", "simcuda", "run", *(["--built", built] if built else []), PYTHON, str(program), *words]
    path = {"PYTHONPATH": str(find_project() / "scripts"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith(said)
