"""A project that asks for torch, locked and installed by the tools that projects use, from the index of one CUDA.

The index is ours over HTTP with small wheels; the tools are the real ones, which uv fetches from PyPI.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.unit.index.test_per_cuda import served as served

PROJECT = """
[project]
name = "model"
version = "1"
requires-python = ">=3.11"
dependencies = ["torch==2.6.0"]
"""
WANTED = {"torch-2.6.0+cu124", "torch_cuda-2.6.0+cu124.paired", "torch_cuda_libraries-2.6.0+cu124"}


@pytest.fixture(scope="module")
def address(served: str) -> str:
    """The index of CUDA 12.4 on a site that has 11.8 too."""
    return f"{served}/cu124/simple/"


def run(folder: Path, *command: str) -> None:
    """Run a tool in the project, with no configuration of this machine's but where its packages come from."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("POETRY_", "VIRTUAL_ENV"))}
    plain |= {"POETRY_VIRTUALENVS_IN_PROJECT": "true", "POETRY_CACHE_DIR": str(folder / "poetry-cache")}
    done = subprocess.run([find_uv_bin(), *command], cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def installed(folder: Path) -> set[str]:
    return {
        path.name.removesuffix(".dist-info") for path in folder.glob(".venv/lib/python*/site-packages/torch*.dist-info")
    }


def test_uv(tmp_path: Path, address: str) -> None:
    index = f'[[tool.uv.index]]\nname = "cu124"\nurl = "{address}"\n'
    (tmp_path / "pyproject.toml").write_text(PROJECT + index)
    run(tmp_path, "sync", "--no-cache")
    assert installed(tmp_path) == WANTED
    assert "sha256" in (tmp_path / "uv.lock").read_text()


def test_poetry(tmp_path: Path, address: str) -> None:
    source = f'[[tool.poetry.source]]\nname = "cu124"\nurl = "{address}"\npriority = "supplemental"\n'
    wanted = '[tool.poetry.dependencies]\ntorch = { source = "cu124" }\n'
    (tmp_path / "pyproject.toml").write_text(f"{PROJECT}\n[tool.poetry]\npackage-mode = false\n{source}\n{wanted}")
    run(tmp_path, "tool", "run", "poetry", "install", "--no-interaction")
    assert installed(tmp_path) == WANTED


def test_poetry_goes_up_to_another_cuda_and_down_again(tmp_path: Path, served: str) -> None:
    for label in ("cu118", "cu124", "cu118"):
        source = (
            f'[[tool.poetry.source]]\nname = "wheels"\nurl = "{served}/{label}/simple/"\npriority = "supplemental"\n'
        )
        wanted = '[tool.poetry.dependencies]\ntorch = { source = "wheels" }\n'
        (tmp_path / "pyproject.toml").write_text(f"{PROJECT}\n[tool.poetry]\npackage-mode = false\n{source}\n{wanted}")
        run(tmp_path, "tool", "run", "poetry", "lock", "--no-interaction", "--regenerate")
        run(tmp_path, "tool", "run", "poetry", "sync", "--no-interaction")
        assert installed(tmp_path) == {name.replace("cu124", label) for name in WANTED}


def test_pip_compile(tmp_path: Path, address: str) -> None:
    (tmp_path / "requirements.in").write_text("torch==2.6.0\n")
    compiled = ("pip-compile", "--quiet", "--strip-extras", "--generate-hashes", "--index-url", address)
    run(tmp_path, "tool", "run", "--from", "pip-tools", *compiled, "requirements.in")
    run(tmp_path, "venv", "--quiet", "--seed", ".venv")
    locked = ("--require-hashes", "--no-cache-dir", "--requirement", "requirements.txt")
    run(tmp_path, "run", "--no-project", "--python", ".venv/bin/python", "python", "-m", "pip", "install", *locked)
    assert installed(tmp_path) == WANTED
