"""torch_puone, CUDA behind the layer, beside the official wheel of PyTorch for CUDA on the simulated device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import backend_env
import pytest
from tests.support.cuda_torch import require_cuda_python
from tests.support.tools import require_python_headers, require_tool

from decouple.base.paths import find_cache

PUONE = backend_env.THIRD_DEVICE / "torch_puone"
PROGRAM = backend_env.THIRD_DEVICE / "examples" / "one_key.py"


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with PyTorch for CUDA."""
    return require_cuda_python()


def run_simulated(python: Path, words: Sequence[str], path: Path | None = None, **more: str) -> str:
    """Run words with the simulated device in front of PyTorch; what they print. Fails with it when they fail."""
    scripts = os.pathsep.join(str(each) for each in (backend_env.ROOT / "scripts", path) if each)
    env = backend_env.build_environment(python, PUONE) | {"PYTHONPATH": scripts, "OMP_NUM_THREADS": "1", **more}
    env.setdefault("SIMCUDA_CACHE", str(find_cache() / "simcuda"))
    command = [sys.executable, "-m", "simcuda", "run", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def installed(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder torch_puone is installed in; PyTorch for CUDA is imported to build it."""
    require_tool("c++")
    require_python_headers()
    target = tmp_path_factory.mktemp("puone")
    pip = [str(python), "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(target)]
    run_simulated(python, ["--no-shadows", *pip, str(PUONE)])
    return target


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_own_tests_pass(python: Path, installed: Path) -> None:
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PUONE / "tests")]
    said = run_simulated(python, command, installed, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    assert re.fullmatch(r"\d+ passed.*", said.strip().splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_program_has_the_same_numbers_on_cpu_cuda_and_puone(python: Path, installed: Path) -> None:
    said = run_simulated(python, [str(python), str(PROGRAM)], installed, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
    rows = [line.split() for line in said.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["cpu", "cuda", "puone:0"]
    assert rows[1][1:3] == rows[2][1:3] and rows[2][-1] == "0"  # losses, and the weights' difference from CUDA's
