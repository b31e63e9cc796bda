"""The release matrix becomes jobs that a CI host can run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "ci"))

import matrix as ci_matrix  # noqa: E402 - a script of ci/, not a module of the package


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6").touch()
    return tmp_path


def write(project: Path, body: str) -> Path:
    path = project / "matrix.toml"
    path.write_text("[limits]\njob_minutes = 330\n" + body)
    return path


ENTRY = """
[[build]]
release = "2.6"
env = "rootfs"
python = ["3.12", "3.13"]
cuda."12.4" = ["9.0"]
cuda."12.6" = ["8.0", "9.0"]
"""


def test_stage_1_once_and_stage_2_per_cuda_version(project: Path) -> None:
    jobs = ci_matrix.expand(write(project, ENTRY), project / "series")
    assert [job.name for job in jobs if job.python == "3.13"] == [
        "core-2.6-py3.13",
        "cu124-2.6-py3.13",
        "cu126-2.6-py3.13",
        "verify-2.6-py3.13",
    ]
    by_name = {job.name: job for job in jobs}
    assert by_name["cu126-2.6-py3.12"].needs == ("core-2.6-py3.12",)
    assert "8.0;9.0" in by_name["cu126-2.6-py3.12"].command
    for position, job in enumerate(jobs):
        assert set(job.needs) <= {before.name for before in jobs[:position]}


def test_a_release_without_a_series_is_refused(project: Path) -> None:
    with pytest.raises(ci_matrix.MatrixError, match=r"build\[0\]: release 2\.7: there is no series/2\.7"):
        ci_matrix.expand(write(project, ENTRY.replace('"2.6"', '"2.7"')), project / "series")


def test_two_entries_for_one_job_are_refused(project: Path) -> None:
    with pytest.raises(ci_matrix.MatrixError, match=r"core-2\.6-py3\.12.*two entries"):
        ci_matrix.expand(write(project, ENTRY + ENTRY), project / "series")


def test_the_workflow_files_are_yaml_and_name_only_what_there_is() -> None:
    for path in (ROOT / "ci/workflows").glob("*.yml"):
        text = path.read_text()
        assert isinstance(yaml.safe_load(text), dict), path
        for script in re.findall(r"ci/\w+\.py", text):
            assert (ROOT / script).is_file(), f"{path.name} names {script}"


def test_this_checkouts_matrix_expands_for_every_host() -> None:
    for host in ("plain", "github", "gitlab"):
        command = [sys.executable, str(ROOT / "ci/matrix.py"), "--host", host]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert "core-2.6-py3.13" in json.dumps(json.loads(done.stdout))
