"""Installing from a published index with the real pip and the real uv, over HTTP."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from decouple.index import site
from tests.support.server import serving
from tests.unit.index.wheels import SERIES_B, make_pair, make_wheel

Installer = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    make_pair(tmp_path / "dist")
    make_wheel(tmp_path / "dist", "torch", "2.13.0+decoupled.1")
    site.build_site(tmp_path / "dist", tmp_path / "site")
    with serving(tmp_path / "site") as url:
        yield f"{url}/simple/"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An empty virtual environment; returns its Python."""
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    return tmp_path / "env/bin/python"


@pytest.fixture(params=["pip", "uv"])
def install(request: pytest.FixtureRequest, environment: Path, address: str) -> Installer:
    """``install(*requirements)`` with either installer into the empty environment, from our index alone."""
    python = str(environment)
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv, "uv is one of the dev dependencies"
    command = {
        "pip": [sys.executable, "-m", "pip", "--isolated", "--python", python, "install", "-q", "--no-cache-dir"],
        "uv": [uv, "--no-config", "pip", "install", "-q", "--no-cache", "--python", python],
    }[request.param]

    def run(*requirements: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--index-url", address, *requirements], capture_output=True, text=True, check=False
        )

    return run


def installed(python: Path) -> dict[str, str]:
    code = "import importlib.metadata as m; [print(d.name, d.version) for d in m.distributions()]"
    lines = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    return dict(line.split() for line in lines)


def test_a_core_alone(install: Installer, environment: Path) -> None:
    assert install("torch==2.6.*").returncode == 0
    assert installed(environment) == {"torch": "2.6.0+decoupled.1"}


def test_torch_cuda_brings_the_matching_core_and_never_another(install: Installer, environment: Path) -> None:
    # A newer torch is in the same index: the pin must win over it.
    assert install("torch-cuda").returncode == 0
    assert installed(environment) == {"torch": "2.6.0+decoupled.1", "torch-cuda": "2.6.0+cu124.1"}


def test_torch_cuda_refuses_another_core(install: Installer, environment: Path) -> None:
    refused = install("torch-cuda", "torch==2.13.0+decoupled.1")
    assert refused.returncode != 0
    assert "torch==2.13.0+decoupled.1" in refused.stderr + refused.stdout
    assert installed(environment) == {}


def test_upgrade_to_the_next_series(install: Installer, environment: Path, tmp_path: Path) -> None:
    assert install("torch-cuda").returncode == 0
    make_pair(tmp_path / "next", revision=2, series=SERIES_B)
    site.build_site(tmp_path / "next", tmp_path / "site")
    assert install("--upgrade", "torch-cuda").returncode == 0
    assert installed(environment) == {"torch": "2.6.0+decoupled.2", "torch-cuda": "2.6.0+cu124.2"}


def test_another_python_is_refused(install: Installer, environment: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "future", "torch", "2.14.0+decoupled.1", requires_python=">=3.99")
    site.build_site(tmp_path / "future", tmp_path / "site")
    assert install("torch==2.14.0+decoupled.1").returncode != 0
    assert installed(environment) == {}


def test_changed_bytes_are_refused(install: Installer, environment: Path, tmp_path: Path) -> None:
    (core,) = (tmp_path / "site/files/2.6").glob("torch-2.6.0*.whl")
    other, _ = make_pair(tmp_path / "other", series=SERIES_B)  # a whole wheel of the same name, not the promised one
    core.write_bytes(other.read_bytes())
    refused = install("torch==2.6.*")
    assert refused.returncode != 0
    assert "hash" in (refused.stderr + refused.stdout).lower()
    assert installed(environment) == {}
