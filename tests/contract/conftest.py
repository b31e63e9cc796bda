"""A PyTorch, the contract and torch_sim for the tests of this folder; lets them import ``backend_env`` beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import backend_env
from tests.support.cached_trees import cached_trees_stay  # noqa: F401 - a fixture of every test here
from tests.support.tools import leave_test, require_python_headers, require_tool


@pytest.fixture(scope="session")
def interpreter() -> Path:
    """An interpreter with PyTorch."""
    try:
        return backend_env.python()
    except backend_env.NoTorchError as error:
        leave_test(f"torch {backend_env.TORCH} cannot be installed here: {error}")


@pytest.fixture(scope="session")
def contract(interpreter: Path) -> Path:
    """The contract's tests, installed."""
    return backend_env.install(interpreter, backend_env.THIRD_DEVICE / "contract")


@pytest.fixture(scope="session")
def torch_sim(interpreter: Path) -> Path:
    """torch_sim, built and installed."""
    require_tool("c++")
    require_python_headers()
    return backend_env.install_sim(interpreter)
