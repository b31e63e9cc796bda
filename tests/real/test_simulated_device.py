"""The simulated device in front of a real CUDA build of PyTorch: the official wheel, or that of SIMCUDA_TORCH.

SIMCUDA_BUILT may name a folder that ``python -m simcuda build`` made for it; else that is done first.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from tests.support.cuda_torch import simulated_variables

BUILT = ["--built", os.environ["SIMCUDA_BUILT"]] if os.environ.get("SIMCUDA_BUILT") else []
PROGRAMS = Path(__file__).parent / "simulated"
MNIST = find_project() / "scripts/simcuda/examples/mnist.py"

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.tools("c++"),
    pytest.mark.timeout(1800),  # whose first it is installs PyTorch and compiles the stand-ins
]


def test_the_training_takes_the_one_device_there_is(cuda_python: Path) -> None:
    done = run_simulated(cuda_python, MNIST, devices=1)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].endswith("ranks: 1")


def test_the_training_ends_with_a_rank_that_failed(cuda_python: Path) -> None:
    """It waited for the answer for ever."""
    done = run_simulated(cuda_python, MNIST, memory="1M")
    assert done.returncode and "OutOfMemoryError" in done.stderr


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (PROGRAMS / "values.py", (), "ok asserts"),
        (PROGRAMS / "replayed_assert.py", ("index",), "ok assert"),
        (PROGRAMS / "replayed_assert.py", ("condition",), "ok assert"),
        (PROGRAMS / "nccl.py", (), "ok collectives"),
        (PROGRAMS / "nccl_without_room.py", (), "ok errors"),
        (PROGRAMS / "profiler.py", (), "ok activities"),
        (PROGRAMS / "fork.py", (), "ok child and parent"),
        (MNIST, (), "largest difference of a weight"),
        (MNIST, ("--amp",), "largest difference of a weight"),
    ],
    ids=[
        "values",
        "replayed index",
        "replayed condition",
        "collectives",
        "collectives without room",
        "profiler",
        "fork",
        "training",
        "training with amp",
    ],
)
def test_a_program_has_the_cpus_values(cuda_python: Path, program: Path, words: tuple[str, ...], said: str) -> None:
    done = run_simulated(cuda_python, program, *words)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith(said)


def run_simulated(
    python: Path, program: Path, *words: str, devices: int = 2, memory: str = "16G"
) -> subprocess.CompletedProcess[str]:
    """Run a program on simulated devices."""
    device = ["--devices", str(devices), "--memory", memory, *BUILT]
    command = [str(python), "-m", "simcuda", "run", *device, str(python), str(program), *words]
    return subprocess.run(command, env=simulated_variables(), capture_output=True, text=True, timeout=1200)


TESTS = """
import torch

def test_that_leaves_the_memory_history_on():
    torch.cuda.memory._record_memory_history()
    torch.ones(3, device="cuda")

def test_that_looks_at_a_history():
    torch.cuda.memory._record_memory_history(context="alloc")
    kept = torch.ones(3, device="cuda")
    assert "empty_caches" not in str(torch.cuda.memory._snapshot()["device_traces"])
"""


def test_what_is_done_between_two_tests_is_in_no_memory_history(tmp_path: Path, cuda_python: Path) -> None:
    """As upstream's test_cycles and test_memory_plots_free_segment_stack: the second failed behind the first."""
    (tmp_path / "test_history.py").write_text(TESTS)
    plugin = ["-p", "simcuda.plugin", "--simcuda-results", str(tmp_path / "results.jsonl")]
    python = str(cuda_python)
    pytests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, str(tmp_path / "test_history.py")]
    command = [python, "-m", "simcuda", "run", *BUILT, *pytests]
    done = subprocess.run(command, env=simulated_variables(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
