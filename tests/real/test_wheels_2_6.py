"""The wheels of a whole build, published and looked at by other people's tools. Skipped where nothing was built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project
from decouple.build.wheels import read_manifest
from decouple.index import site
from decouple.index.check import check
from decouple.index.remote import Index
from tests.fault.index.test_install import served

DIST = find_project() / "dist" / "2.6"
CORE, BACKEND = sorted(DIST.glob("torch-*.whl")), sorted(DIST.glob("torch_cuda-*.whl"))

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not (CORE and BACKEND), reason=f"{DIST}: no wheels; nox -s build-2.6 makes them (hours)"),
]


def tool(*command: str) -> str:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_both_wheels_are_of_one_series_and_one_tree() -> None:
    core, backend = read_manifest(CORE[-1]), read_manifest(BACKEND[-1])
    assert core.series_digest == backend.series_digest
    assert core.upstream["commit"] == backend.upstream["commit"]
    assert (core.cuda, backend.cuda) == (None, "12.4")


def test_an_index_of_them_is_whole_and_uv_resolves_from_it(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    for wheel in (CORE[-1], BACKEND[-1]):
        (tmp_path / "dist" / wheel.name).hardlink_to(wheel)
    site.build(tmp_path / "dist", tmp_path / "site")
    assert check(Index(str(tmp_path / "site"))) == []
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    assert uv, "uv is one of the dev dependencies"
    tag = CORE[-1].name.split("-")[2].removeprefix("cp3")
    with served(tmp_path / "site") as url:
        command = [uv, "--no-config", "pip", "compile", "-q", "--no-header", "--no-annotate", "--index", url]
        command += [
            "--index-strategy",
            "first-index",
            "--python-version",
            f"3.{tag}",
            "--python-platform",
            "linux",
            "-",
        ]
        done = subprocess.run(command, input="torch-cuda\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pins = dict(line.split("==") for line in done.stdout.splitlines() if "==" in line)
    assert pins["torch"] == read_manifest(CORE[-1]).version
    assert pins["torch-cuda"] == read_manifest(BACKEND[-1]).version
    assert pins["nvidia-cudnn-cu12"].startswith("9.1.0")


@pytest.mark.parametrize("wheel", [*CORE[-1:], *BACKEND[-1:]], ids=lambda path: path.name.split("-")[0])
def test_other_tools_find_nothing_wrong(wheel: Path) -> None:
    tool("twine", "check", "--strict", str(wheel))
    # W002: identical files (upstream's headers); W009, W010: upstream's several top-level packages; _CUDAC is no .py.
    tool("check_wheel_contents", "--ignore", "W002,W005,W009,W010", str(wheel))
    assert "linux_x86_64" in tool("auditwheel", "show", str(wheel))
