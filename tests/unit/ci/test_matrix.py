"""The release matrix becomes jobs that a CI host can run."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from decouple.base.files import sha256_of
from decouple.build import inputs, stages
from decouple.build.environment import HostEnvironment, Places
from decouple.cli import parser
from decouple.syntax.globs import matches

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "ci"))

import matrix as ci_matrix  # noqa: E402 - a script of ci/, not a module of the package

WORKFLOWS = ROOT / "ci" / "workflows"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with a series 2.6 and the real description of the Debian root."""
    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6").touch()
    (tmp_path / "series/2.6.toml").write_text('[toolchain]\ncuda = "12.4"\npython = ["3.12", "3.13"]\n')
    (tmp_path / ci_matrix.ROOTFS.parent).mkdir(parents=True)
    shutil.copyfile(ROOT / ci_matrix.ROOTFS, tmp_path / ci_matrix.ROOTFS)
    return tmp_path


def write(project: Path, body: str) -> Path:
    path = project / "matrix.toml"
    path.write_text("[limits]\njob_minutes = 340\nspare_minutes = 25\n" + body)
    return path


def expand(project: Path, body: str) -> list[ci_matrix.Job]:
    return ci_matrix.expand(write(project, body), project)


ENTRY = """
[[build]]
release = "2.6"
env = "host"
python = ["3.12", "3.13"]
cuda."12.4" = ["8.0", "9.0"]
"""


def test_stage_1_once_and_stage_2_per_cuda_version(project: Path) -> None:
    jobs = expand(project, ENTRY)
    assert [job.name for job in jobs if job.python == "3.13"] == [
        "core-2.6-py3.13",
        "cu124-2.6-py3.13",
        "verify-cu124-2.6-py3.13",
        "contract-cu124-2.6-py3.13",
    ]
    by_name = {job.name: job for job in jobs}
    assert by_name["cu124-2.6-py3.12"].needs == ("core-2.6-py3.12",)
    for check in ("verify", "contract"):
        assert by_name[f"{check}-cu124-2.6-py3.12"].needs == ("core-2.6-py3.12", "cu124-2.6-py3.12")
        assert by_name[f"{check}-cu124-2.6-py3.12"].commands[0][:3] == ("nox", "-s", "apply-2.6")
    assert "8.0;9.0" in by_name["cu124-2.6-py3.12"].commands[0]
    for position, job in enumerate(jobs):
        assert set(job.needs) <= {before.name for before in jobs[:position]}
        assert job.build_minutes < job.minutes  # what is left saves the compiler's cache


def test_a_revision_goes_to_both_stages(project: Path) -> None:
    core, cuda, verify = expand(project, ENTRY.replace('env = "host"', 'env = "host"\nrevision = 2'))[:3]
    for job in (core, cuda):
        assert job.commands[0][4:8] == ("--env", "host", "--revision", "2")
    assert "--revision" not in verify.commands[1]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"2.6"', '"2.7"', r"build\[0\]: release 2\.7: there is no series/2\.7"),
        ('"12.4"', '"12.6"', r"build\[0\]: cuda 12\.6: series 2\.6 builds with 12\.4"),
        ('"host"', '"rootfs"', r"build\[0\]: python 3\.12: environment 'rootfs' builds for 3\.13"),
        ("env", "environment", r"build\[0\]: env: missing"),
    ],
    ids=["no series", "another CUDA", "another Python", "a key"],
)
def test_what_cannot_be_built_is_refused(project: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ci_matrix.MatrixError, match=told):
        expand(project, ENTRY.replace(old, new))


def test_two_entries_for_one_job_are_refused(project: Path) -> None:
    with pytest.raises(ci_matrix.MatrixError, match=r"core-2\.6-py3\.12.*two entries"):
        expand(project, ENTRY + ENTRY)


def test_every_command_of_this_checkout_is_a_session_with_arguments_that_it_takes() -> None:
    command = [sys.executable, "-m", "nox", "-l"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    sessions = set(re.findall(r"^[*-] (\S+)", listed.stdout, re.MULTILINE))
    for job in ci_matrix.expand():
        for words in job.commands:
            assert words[:2] == ("nox", "-s"), job.name
            assert words[2] in sessions
            verb, release = words[2].rsplit("-", 1)
            parser().parse_args([verb, release, *words[4:]])  # exits with 2 on what it does not know


def test_what_a_stage_hands_over_is_what_the_next_one_looks_for(tmp_path: Path) -> None:
    """On a CI host stage 2 begins in a fresh checkout that has only ``paths`` of stage 1's job."""
    core, cuda, verify = ci_matrix.expand()[:3]
    built = Places.of(tmp_path / "built", "2.6", tmp_path / "cache")
    built.make()
    for stage, name in ((1, "torch-2.6.0+decoupled-cp313-cp313-linux_x86_64.whl"), (2, "torch_cuda-2.6.0+cu124-x.whl")):
        with zipfile.ZipFile(built.dist / name, "w") as archive:
            archive.writestr("torch/version.py", "__version__ = '2.6.0+decoupled'\n")
        stamp = inputs.Stamp("0" * 64, name, sha256_of(built.dist / name), 1.0, 1)
        inputs.write_stamp(built.state / f"stage{stage}.json", stamp)
    fresh = Places.of(tmp_path / "fresh", "2.6", tmp_path / "cache")
    fresh.make()
    for job in (core, cuda):
        for path in built.project.rglob("*"):
            name = path.relative_to(built.project).as_posix()
            if path.is_file() and any(fnmatch.fnmatchcase(name, pattern) for pattern in job.paths):
                (fresh.project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, fresh.project / name)
        if job is core:
            assert not list(fresh.dist.glob("torch_cuda-*"))
            stages.unpack_core(HostEnvironment(fresh), "2.6.0")
            assert (fresh.core / "torch/version.py").is_file()
    stamps = [inputs.read_stamp(fresh.state / f"stage{stage}.json") for stage in (1, 2)]
    assert all(stamp and (fresh.dist / stamp.wheel).is_file() for stamp in stamps)
    assert verify.needs == (core.name, cuda.name)


def test_the_workflow_files_name_only_what_there_is() -> None:
    for path in WORKFLOWS.glob("*.yml"):
        text = path.read_text()
        assert isinstance(yaml.safe_load(text), dict), path
        for script in re.findall(r"ci/\w+\.py", text):
            assert (ROOT / script).is_file(), f"{path.name} names {script}"
        for verb in re.findall(r"decouple (index \w+)", text):
            with pytest.raises(SystemExit) as ended:
                parser().parse_args([*verb.split(), "--help"])
            assert ended.value.code == 0, f"{path.name}: decouple {verb}"


def test_what_is_published_is_what_the_jobs_that_make_wheels_hand_over() -> None:
    publish = yaml.safe_load((WORKFLOWS / "github.yml").read_text())["jobs"]["publish"]
    assert set(publish["needs"]) == set(ci_matrix.STAGES[2:]), "no check may fail and the site be published"
    (pattern,) = [step["with"]["pattern"] for step in publish["steps"] if "pattern" in step.get("with", {})]
    for job in ci_matrix.expand():
        made_a_wheel = any(".whl" in path for path in job.paths)
        assert (matches(job.name, (pattern,)) is not None) == made_a_wheel, job.name


def test_a_row_has_what_the_workflow_asks_of_it() -> None:
    asked = set(re.findall(r"fromJSON\(inputs\.job\)\.(\w+)", (WORKFLOWS / "github-stage.yml").read_text()))
    stages_of = ci_matrix.github(ci_matrix.expand())
    for stage, table in stages_of.items():
        for row in table["include"]:  # type: ignore[index]
            assert asked <= set(row), stage
    assert stages_of["cuda"]["include"][0]["core"] == "core-2.6-py3.13"  # type: ignore[index]


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ("vendor.github-workflows", "github.yml"),
        ("vendor.github-workflows", "github-stage.yml"),
        ("vendor.gitlab-ci", "gitlab.yml"),
        ("vendor.gitlab-ci", "child pipeline"),
    ],
)
def test_the_hosts_own_schemas_take_the_workflows(tmp_path: Path, schema: str, document: str) -> None:
    path = WORKFLOWS / document
    if document == "child pipeline":
        path = tmp_path / "jobs.yml"
        path.write_text(json.dumps(ci_matrix.gitlab(ci_matrix.expand())))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    if "gitlab" in schema:
        command += ["--data-transform", "gitlab-ci"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_this_checkouts_matrix_expands_for_every_host() -> None:
    for host in ("plain", "github", "gitlab"):
        command = [sys.executable, str(ROOT / "ci/matrix.py"), "--host", host]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert "core-2.6-py3.13" in json.dumps(json.loads(done.stdout))


def test_a_command_line_can_be_given_to_a_shell() -> None:
    command = [sys.executable, str(ROOT / "ci/matrix.py"), "--command-of", "cu124-2.6-py3.13"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert tuple(shlex.split(done.stdout)) == ci_matrix.expand()[1].commands[0]
