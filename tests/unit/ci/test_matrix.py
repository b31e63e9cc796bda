"""The release matrix becomes jobs that a CI host can run."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from decouple.base.files import compute_sha256
from decouple.build import core_wheel, inputs, settings
from decouple.build.environment import HostEnvironment, Places
from decouple.cli import build_parser
from decouple.cli.menu import EXTRAS
from decouple.flows.build_request import BuildRequest
from decouple.release import status
from decouple.syntax.globs import find_match

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "ci"))

import hosts  # noqa: E402 - scripts of ci/, no modules of the package
import jobs as ci_jobs  # noqa: E402

WORKFLOWS = ROOT / "ci" / "workflows"
OWN = ROOT / ".github/workflows"
"""Those that run here."""


def test_it_promises_only_architectures_whose_machine_code_was_compared() -> None:
    for build in tomllib.loads((ROOT / "ci/matrix.toml").read_text())["build"]:
        proven = status.read_status(status.locate_status(ROOT, build["release"]))
        compiled = [*(wheel.kernels for wheel in proven.portable.values()), proven.kernels.get("built")]
        compared = [kernels for kernels in compiled if kernels and kernels.total and not kernels.unexplained]
        shown = {arch for kernels in compared for arch in kernels.archs}
        promised = {f"sm_{arch.replace('.', '')}" for archs in build["cuda"].values() for arch in archs}
        assert promised <= shown, f"{build['release']}, {build['env']}: promised and not proven"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with a series 2.6 and the real descriptions of how it is built."""
    (tmp_path / "series").mkdir()
    (tmp_path / "series/2.6").touch()
    (tmp_path / "series/2.6.toml").write_text(
        'version = "2.6.0"\n[toolchain]\ncuda = "12.4"\npython = ["3.12", "3.13"]\n'
    )
    (tmp_path / ci_jobs.PACKAGE).mkdir(parents=True)
    for name in (*ci_jobs.ROOTS.values(), "stages.toml", "toolkits.toml"):
        shutil.copyfile(ROOT / ci_jobs.PACKAGE / name, tmp_path / ci_jobs.PACKAGE / name)
    return tmp_path


def write(project: Path, body: str) -> Path:
    path = project / "matrix.toml"
    path.write_text("[limits]\njob_minutes = 340\nspare_minutes = 25\n" + body)
    return path


def expand(project: Path, body: str) -> list[ci_jobs.Job]:
    return ci_jobs.expand_matrix(write(project, body), project)


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
        "core-2.6-host-py3.13",
        "cu124-2.6-host-py3.13",
        "verify-cu124-2.6-host-py3.13",
        "contract-cu124-2.6-host-py3.13",
    ]
    by_name = {job.name: job for job in jobs}
    assert by_name["cu124-2.6-host-py3.12"].needs == ("core-2.6-host-py3.12",)
    for check in ("verify", "contract"):
        assert by_name[f"{check}-cu124-2.6-host-py3.12"].needs == ("core-2.6-host-py3.12", "cu124-2.6-host-py3.12")
        assert by_name[f"{check}-cu124-2.6-host-py3.12"].commands[0][:3] == ("nox", "-s", "apply-2.6")
    assert "8.0;9.0" in by_name["cu124-2.6-host-py3.12"].commands[0]
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
        ('"12.4"', '"12.6"', r"build\[0\]: cuda 12\.6: environment 'host' builds 2\.6 for 12\.4"),
        ('"host"', '"rootfs"', r"build\[0\]: python 3\.12: environment 'rootfs' builds 2\.6 for 3\.13"),
        ("env", "environment", r"build\[0\]: env: missing"),
    ],
    ids=["no series", "another CUDA", "another Python", "a key"],
)
def test_what_cannot_be_built_is_refused(project: Path, old: str, new: str, told: str) -> None:
    with pytest.raises(ci_jobs.MatrixError, match=told):
        expand(project, ENTRY.replace(old, new))


def test_two_entries_for_one_job_are_refused(project: Path) -> None:
    with pytest.raises(ci_jobs.MatrixError, match=r"host-py3\.12.*two"):
        expand(project, ENTRY + ENTRY)


def test_every_command_of_this_checkout_is_a_session_with_arguments_that_it_takes() -> None:
    command = [sys.executable, "-m", "nox", "-l"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    sessions = set(re.findall(r"^[*-] (\S+)", listed.stdout, re.MULTILINE))
    for job in ci_jobs.expand_matrix():
        for words in job.commands:
            if words[0] == "uv":  # not ours; `pipx run` brings it
                continue
            assert words[:2] == ("nox", "-s"), job.name
            assert words[2] in sessions
            verb, release = words[2].rsplit("-", 1)
            build_parser().parse_args([verb, release, *words[4:]])  # exits with 2 on what it does not know


def pairs() -> list[tuple[ci_jobs.Job, ci_jobs.Job]]:
    """The two jobs whose wheels are verified together."""
    by_name = {job.name: job for job in ci_jobs.expand_matrix()}
    return [(by_name[job.needs[0]], by_name[job.needs[1]]) for job in by_name.values() if job.stage == "verify"]


@pytest.mark.parametrize(("core", "cuda"), [pytest.param(*jobs, id=jobs[1].name) for jobs in pairs()])
def test_what_a_stage_hands_over_is_what_the_next_one_looks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: ci_jobs.Job, cuda: ci_jobs.Job
) -> None:
    """On a CI host stage 2 begins in a fresh checkout that has ``paths`` of stage 1's job alone; verify has both's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    built, fresh = (places_of(tmp_path / name, cuda) for name in ("built", "fresh"))
    wheels = [f"torch{one}-2.6.0+x-py3-none-linux_x86_64.whl" for one in ("", "_cuda")]

    make_wheel(built[0], 1, wheels[0])
    hand_over(core, built[0].project, fresh[0].project)
    assert stamped(fresh[0], 1) == wheels[0]
    assert not list(fresh[0].dist.glob("torch_cuda-*"))

    core_wheel.unpack_core(HostEnvironment(built[0]), "2.6.0")
    make_wheel(built[1], 2, wheels[1], core_wheel.read_core_digest(built[1]))
    hand_over(cuda, built[0].project, fresh[0].project)
    assert stamped(fresh[1], 2) == wheels[1]
    stamp = inputs.read_stamp(fresh[1].state / "stage2.json")
    assert stamp and stamp.core == compute_sha256(fresh[0].dist / wheels[0])


def make_wheel(places: Places, stage: int, name: str, core: str = "") -> None:
    """As a stage leaves it: a wheel, and the stamp by which the next finds it."""
    with zipfile.ZipFile(places.dist / name, "w") as archive:
        archive.writestr("torch/version.py", "__version__ = '2.6.0+decoupled'\n")
    stamp = inputs.Stamp("0" * 64, name, compute_sha256(places.dist / name), 1.0, 1, core=core)
    inputs.write_stamp(places.state / f"stage{stage}.json", stamp)


def hand_over(job: ci_jobs.Job, checkout: Path, other: Path) -> None:
    """As a CI host does with the artifact of ``job``."""
    for path in checkout.rglob("*"):
        said = path.relative_to(checkout).as_posix()
        if path.is_file() and any(fnmatch.fnmatchcase(said, pattern) for pattern in job.paths):
            (other / said).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, other / said)


def test_a_job_fails_that_lacks_a_part_of_what_it_hands_over(tmp_path: Path) -> None:
    """GitHub uploads an artifact without it, and GitLab warns: the job was green, and the next one had nothing."""
    jobs = ci_jobs.expand_matrix()
    rows = [row for stage in hosts.make_github_matrix(jobs).values() for row in stage["include"]]  # type: ignore[index]
    github = {row["name"]: row["script"].splitlines()[-1] for row in rows}
    pipeline = hosts.make_gitlab_pipeline(jobs)
    for job in {job.stage: job for job in jobs if job.paths}.values():
        lines = {github[job.name], pipeline[job.name]["script"][-1]}  # type: ignore[index]
        made = [tmp_path / job.name / path.replace("*", "x") for path in job.paths]
        for path in made:
            path.mkdir(parents=True)
        for line in lines:
            assert ended_with(line, tmp_path / job.name) == 0
        for path in made:
            path.rmdir()
            assert 0 not in {ended_with(line, tmp_path / job.name) for line in lines}, path
            path.mkdir()


def test_a_check_hands_over_nothing_that_nobody_takes() -> None:
    """Each job's own `ci/status/2.6.json` had its figures alone, and nothing made one file of them."""
    jobs = ci_jobs.expand_matrix()
    pipeline = hosts.make_gitlab_pipeline(jobs)
    for job in jobs:
        assert not any(path.startswith("ci/status") for path in job.paths)
        if job.stage == "verify":
            assert "artifacts" not in pipeline[job.name]  # type: ignore[operator]
            assert hosts.make_github_matrix([job])["verify"]["include"][0]["paths"] == ""  # type: ignore[index]


def test_a_check_makes_its_environment_again_where_one_is(tmp_path: Path) -> None:
    """`nox -s ci -- verify-…` runs it in one checkout, for one Python after the other."""
    job = next(job for job in ci_jobs.expand_matrix() if job.stage == "verify" and "portable" in job.name)
    make = [sys.executable if word == job.python else word for word in job.commands[0] if word != "--seed"]  # by PyPI
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", *make], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def ended_with(line: str, folder: Path) -> int:
    """The exit code of a line of a job's script there."""
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True).returncode


def test_the_report_of_the_contract_is_below_the_folder_of_trials(tmp_path: Path) -> None:
    jobs = [job for job in ci_jobs.expand_matrix() if job.stage == "contract"]
    assert jobs
    for job in jobs:
        report = Places.of_release(tmp_path, job.release, tmp_path).verify / "contract-both/report"
        assert str(report.relative_to(tmp_path)) in job.paths


def stamped(places: Places, stage: int) -> str:
    """The wheel that the next stage takes; empty when there is none."""
    stamp = inputs.read_stamp(places.state / f"stage{stage}.json")
    return stamp.wheel if stamp and (places.dist / stamp.wheel).is_file() else ""


def places_of(project: Path, cuda: ci_jobs.Job) -> tuple[Places, Places]:
    """Those of stage 1 and of stage 2, as the commands of ``cuda`` find them."""
    words = cuda.commands[0]
    asked = build_parser().parse_args(["build", cuda.release, *words[words.index("--") + 1 :]])
    places = BuildRequest(project, cuda.release, asked.env, python=asked.python or "").places
    of_cuda = places.with_cuda(asked.env, asked.cuda) if asked.cuda else places
    for one in (places, of_cuda):
        one.create_folders()
    return places, of_cuda


def test_shards_leave_their_objects_to_those_that_link(project: Path) -> None:
    entry = ENTRY.replace('env = "host"', 'env = "portable"\nshards = 2').replace('"3.12", "3.13"', '"3.13", "3.9"')
    by_name = {job.name: job for job in expand(project, entry)}
    for made in ("core", "cu124"):
        slices = tuple(f"shard-{number}-{made}-2.6-portable-py3.13" for number in (1, 2))
        for number, name in enumerate(slices, start=1):
            assert by_name[name].commands[0][-4:] == ("--cache", "file:build/objects", "--shard", f"{number}/2")
            assert by_name[name].paths == ("build/objects",)
        for python in ("3.13", "3.9"):  # nearly all objects are the same, and those of another Python are few
            links = by_name[f"{made}-2.6-portable-py{python}"]
            assert (links.shards, links.commands[0][-2:]) == (slices, ("--cache", "file:build/objects"))
    stages = hosts.make_github_matrix(list(by_name.values()))
    rows = {row["name"]: row for table in stages.values() for row in table["include"]}  # type: ignore[index]
    for name, job in by_name.items():
        taken = matches_of(rows[name]["shards"], by_name)
        assert taken == sorted(job.shards)
    pipeline = hosts.make_gitlab_pipeline(list(by_name.values()))
    assert pipeline["core-2.6-portable-py3.9"]["needs"][:1] == ["shard-1-core-2.6-portable-py3.13"]  # type: ignore[index]
    assert not [job for job in expand(project, entry.replace("shards = 2", "")) if job.shards or "shard" in job.name]


def matches_of(pattern: str, names: Iterable[str]) -> list[str]:
    """As actions/download-artifact takes it."""
    return sorted(name for name in names if pattern and find_match(name, (pattern,)) is not None)


def test_the_workflow_files_name_only_what_there_is() -> None:
    for path in (*WORKFLOWS.glob("*.yml"), *OWN.glob("*.yml")):
        text = path.read_text()
        assert isinstance(yaml.safe_load(text), dict), path
        for script in re.findall(r"ci/\w+\.py", text):
            assert (ROOT / script).is_file(), f"{path.name} names {script}"
        for verb in re.findall(r"decouple (index \w+)", text):
            with pytest.raises(SystemExit) as ended:
                build_parser().parse_args([*verb.split(), "--help"])
            assert ended.value.code == 0, f"{path.name}: decouple {verb}"


def test_what_is_published_is_what_the_jobs_that_make_wheels_hand_over() -> None:
    publish = yaml.safe_load((WORKFLOWS / "github.yml").read_text())["jobs"]["publish"]
    assert set(publish["needs"]) == {"verify", "contract"}, "no check may fail and the site be published"
    (pattern,) = [step["with"]["pattern"] for step in publish["steps"] if "pattern" in step.get("with", {})]
    jobs = ci_jobs.expand_matrix()
    for job in jobs:
        assert bool(matches_of(pattern, [job.name])) == job.published, job.name
        assert not job.published or any(".whl" in path for path in job.paths)
    assert {job.stage for job in jobs if job.published} == {"core", "cuda"}


@pytest.mark.parametrize("code", [0, 2])
def test_a_matrix_that_cannot_be_expanded_fails_its_job(tmp_path: Path, code: int) -> None:
    """The step printed what `ci/matrix.py` said, by a command that ends well, so "jobs=" was handed on."""
    job = yaml.safe_load((WORKFLOWS / "github.yml").read_text())["jobs"]["matrix"]
    (script,) = [step["run"] for step in job["steps"] if step.get("id") == "expand"]
    python, answer = tmp_path / "python3", tmp_path / "output"
    python.write_text(f"#!/bin/sh\necho '{{}}'\nexit {code}\n")
    python.chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(answer)}
    done = subprocess.run(["bash", "-e", "-c", script], env=given, check=False)
    assert (done.returncode, answer.exists()) == (code, not code)


def test_gitlabs_last_job_installs_what_its_commands_need() -> None:
    """Without the extra the first of them ends with "cryptography is not installed"."""
    lines = hosts.make_gitlab_pipeline(ci_jobs.expand_matrix())["publish"]["script"]  # type: ignore[index]
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[:3] == ["pipx", "run", "--spec"]
        assert words[3] == f".[{EXTRAS[words[5]]}]", line


def test_a_row_has_what_the_workflow_asks_of_it() -> None:
    asked = set(re.findall(r"fromJSON\(inputs\.job\)\.(\w+)", (WORKFLOWS / "github-stage.yml").read_text()))
    stages_of = hosts.make_github_matrix(ci_jobs.expand_matrix())
    for stage, table in stages_of.items():
        for row in table["include"]:  # type: ignore[index]
            assert asked <= set(row), stage
    assert stages_of["cuda"]["include"][0]["core"] == "core-2.6-portable-py3.13"  # type: ignore[index]


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ("vendor.github-workflows", "github.yml"),
        ("vendor.github-workflows", "github-stage.yml"),
        *(("vendor.github-workflows", f"../../.github/workflows/{path.name}") for path in sorted(OWN.glob("*.yml"))),
        ("vendor.gitlab-ci", "gitlab.yml"),
        ("vendor.gitlab-ci", "child pipeline"),
    ],
)
def test_the_hosts_own_schemas_take_the_workflows(tmp_path: Path, schema: str, document: str) -> None:
    path = WORKFLOWS / document
    if document == "child pipeline":
        path = tmp_path / "jobs.yml"
        path.write_text(json.dumps(hosts.make_gitlab_pipeline(ci_jobs.expand_matrix())))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    if "gitlab" in schema:
        command += ["--data-transform", "gitlab-ci"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


WATCH = OWN / "upstream-watch.yml"


def find_value(expression: str, event: Mapping[str, Any]) -> object:
    """What GitHub makes of ``${{ a.b || c.d || 'word' }}``."""
    (inner,) = re.findall(r"\$\{\{ (.*?) \}\}", expression)
    for part in inner.split(" || "):
        if part.startswith("'"):
            return part.strip("'")
        value: Any = {"github": {"event": event}}
        for name in part.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if value:
            return value
    return None


@pytest.mark.parametrize(
    ("kind", "payload", "ref"),
    [
        (
            "pull_request",
            {"payload": {"number": 7, "pull_request": {"number": 7, "head": {"sha": "a" * 40}}}},
            "a" * 40,
        ),
        ("push", {"payload": {"ref": "refs/tags/ciflow/trunk/7", "after": "b" * 40}}, "b" * 40),
        ("pytorch-pr-trigger", {"pr_number": 7, "head_sha": "c" * 40}, "c" * 40),
        (None, None, "main"),
    ],
)
def test_upstreams_relay_and_cron_start_the_watch_on_the_right_commit(
    kind: str | None, payload: Mapping[str, Any] | None, ref: str
) -> None:
    """The relay hands upstream's event over as it is; at first it had fields of its own."""
    text = yaml.safe_load(WATCH.read_text())
    started = text[True]  # YAML 1.1 reads the key "on" so
    assert {"schedule", "workflow_dispatch"} < started.keys()
    assert kind is None or kind in started["repository_dispatch"]["types"]
    event = {"client_payload": payload} if payload else {}
    assert find_value(text["jobs"]["watch"]["env"]["REF"], event) == ref
    group = find_value(text["concurrency"]["group"], event)
    assert group == ("main" if kind is None else 7 if kind != "push" else "refs/tags/ciflow/trunk/7"), (
        "a newer state of the same pull request ends the run on the older one"
    )
    steps = text["jobs"]["watch"]["steps"]
    kept = [step for step in steps if "gh issue" in step.get("run", "") or "git push" in step.get("run", "")]
    assert len(kept) == 2
    assert all("github.event_name != 'repository_dispatch'" in step["if"] for step in kept), "a run on a pull request"


def test_what_the_watch_knows_is_there_the_next_night(tmp_path: Path) -> None:
    """The two steps as the workflow has them, with git: state goes to a branch, and comes from it."""
    steps = {
        step.get("name"): step["run"]
        for step in yaml.safe_load(WATCH.read_text())["jobs"]["watch"]["steps"]
        if "run" in step
    }
    origin, state = tmp_path / "origin", Path("build/watch/state.json")
    subprocess.run(["git", "init", "-q", "--bare", str(origin)], check=True)
    for night in range(3):
        clone = tmp_path / f"night{night}"
        subprocess.run(["git", "clone", "-q", str(origin), str(clone)], check=True, capture_output=True)
        subprocess.run(["bash", "-e", "-c", steps["what was known before"]], cwd=clone, check=True, capture_output=True)
        assert (clone / state).exists() == (night > 0)
        assert night == 0 or (clone / state).read_text() == f"night {night - 1}\n"
        (clone / state).write_text(f"night {night}\n")
        subprocess.run(["bash", "-e", "-c", steps["keep what is known"]], cwd=clone, check=True, capture_output=True)


def test_the_watch_asks_for_options_that_exist() -> None:
    (words,) = re.findall(r"nox -s upstream-watch -- (.*?) \|\|", WATCH.read_text())
    arguments = build_parser().parse_args(["upstream", "watch", *shlex.split(words)])
    assert (arguments.ref, arguments.state.name, arguments.report.name) == ("$REF", "state.json", "report.md")


def test_this_checkouts_matrix_expands_for_every_host() -> None:
    for words in (["--json"], ["--host", "github"], ["--host", "gitlab"]):
        command = [sys.executable, str(ROOT / "ci/matrix.py"), *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert "core-2.6-portable-py3.13" in json.dumps(json.loads(done.stdout))


def nox(*words: str) -> str:
    """What a person sees of this checkout's menu, on a machine that has no uv."""
    command = [sys.executable, "-m", "nox", *words]
    environment = {**os.environ, "UV": "/nowhere/uv"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_persons_get_a_table_of_the_jobs() -> None:
    lines = nox("-s", "ci").splitlines()
    assert [line for line in lines if line.split()[:2] == ["core-2.6-rootfs-py3.13", "core"]]
    assert not [line for line in lines if line.strip() in ("[", "{", "},")]
    told = nox("-s", "ci", "--", "--json")
    assert json.loads(told[told.index("[\n") : told.rindex("\n]") + 2])


def test_nox_tells_nobody_that_it_has_no_uv() -> None:
    assert "uv binary" not in nox("-s", "ci")


def test_a_command_line_can_be_given_to_a_shell() -> None:
    name = "cu124-2.6-rootfs-py3.13"
    command = [sys.executable, str(ROOT / "ci/matrix.py"), "--command-of", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert tuple(shlex.split(done.stdout)) == next(
        job.commands[0] for job in ci_jobs.expand_matrix() if job.name == name
    )


def test_a_job_that_there_is_not_is_told_in_one_line_with_names_near_to_it() -> None:
    command = [sys.executable, str(ROOT / "ci/matrix.py"), "--command-of", "cu124-2.6-rootfs-py3.12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode != 0, done.stdout, done.stderr.count("\n")) == (True, "", 1)
    assert "cu124-2.6-rootfs-py3.13" in done.stderr.partition("did you mean")[2]


def test_a_shard_of_all_promised_architectures_ends_within_a_job() -> None:
    """The matrix promises seven, and one was measured: the estimate reckons with what each costs."""
    document = tomllib.loads((ROOT / "ci/matrix.toml").read_text(encoding="utf-8"))
    limits = document["limits"]
    for row in document["build"]:
        archs = max((len(listed) for listed in row["cuda"].values()), default=1)
        whole = settings.estimate_cost(2, row["env"], arch_count=archs).core_seconds
        longest = 1.05 * whole / (row.get("shards") or 1)  # the longest shard has a twentieth more than the mean
        if row.get("shards"):  # on two cores; without shards a job is ended and goes on in the next run
            assert longest / 2 < 60 * (limits["job_minutes"] - limits["spare_minutes"])
