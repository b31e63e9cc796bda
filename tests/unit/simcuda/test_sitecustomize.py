"""Whatever way a program comes to its torch, the shadow is loaded with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simcuda import launch_environment

TORCH = """
import os
class ops:
    load_library = print
if os.environ.get("BROKEN"):
    raise ImportError("no libtorch.so")
"""


@pytest.mark.parametrize(
    "program",
    [
        "import torch",
        "import torch, torch",
        "import importlib.util; assert importlib.util.find_spec('torch'); import torch",  # as accelerate does
        "import importlib.util, sys; assert importlib.util.find_spec('torch', sys.path); import torch",
        """
import os
os.environ["BROKEN"] = "yes"
try:
    import torch
except ImportError:
    del os.environ["BROKEN"]
import torch
""",
    ],
)
def test_the_shadow_is_loaded_once_with_torch(tmp_path: Path, program: str) -> None:
    """Once it had only been asked whether there was a torch, every CUDA tensor had zeros."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(TORCH)
    variables = {"PYTHONPATH": f"{launch_environment.HERE / 'inject'}:{tmp_path}", "SIMCUDA_SHADOW": "/shadow.so"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("/shadow.so\n", "")


def test_without_a_torch_there_is_no_module_of_that_name() -> None:
    program = "import importlib.util; print(importlib.util.find_spec('torch'))"
    variables = {"PYTHONPATH": str(launch_environment.HERE / "inject"), "SIMCUDA_SHADOW": "/shadow.so"}
    command = [sys.executable, "-S", "-c", f"import sitecustomize; {program}"]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("None\n", "")
