"""Expand ``ci/matrix.toml`` into jobs: stage 1 once per release and Python, stage 2 once per CUDA version on top of it,
then the verification of each pair, and the contract of backends on a simulated device beside it.

``python ci/matrix.py`` prints them as JSON; ``--host github`` prints what ``strategy.matrix`` takes, one object per
stage, ``--host gitlab`` a child pipeline. ``nox -s ci -- JOB`` runs one here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOTFS = Path("scripts/decouple/build/rootfs-trixie.toml")
STAGES = ("core", "cuda", "verify", "contract")
DEBIAN = ("git", "pipx", "xz-utils", "mmdebstrap", "mount")  # what README.md asks of a bare Debian


class MatrixError(Exception):
    """The matrix names something that cannot be built; the message names the entry and the key."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long a job may take, in minutes, and how many of them are left for saving what the build has so far."""

    job_minutes: int
    spare_minutes: int


@dataclasses.dataclass(frozen=True)
class Job:
    """One job of a CI host.

    ``commands`` run in the checkout, one after the other; ``cache`` names the ccache that the job shares with other
    runs. What a job hands to those that need it are ``paths`` (relative to the checkout): for a stage its wheel and the
    stamp by which the next stage finds it. A host ends the job after ``minutes``; the commands are to be ended after
    ``build_minutes``, so that the cache can still be saved and the next run goes on from there.
    """

    name: str
    stage: str
    release: str
    python: str
    needs: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    cache: str
    paths: tuple[str, ...]
    minutes: int
    build_minutes: int


@dataclasses.dataclass(frozen=True)
class Buildable:
    """What can be built of a release: the CUDA version its series was made for, the Pythons of each environment."""

    cuda: str
    python: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, release: str, root: Path) -> Buildable:
        """Read from ``series/<release>.toml`` and the description of the Debian root. Raises OSError, MatrixError."""
        manifest = root / "series" / f"{release}.toml"
        toolchain = tomllib.loads(manifest.read_text(encoding="utf-8")).get("toolchain", {})
        if not toolchain.get("cuda"):
            raise MatrixError(f"{manifest.name}: toolchain.cuda: not known, so there is nothing to build stage 2 with")
        debian = tomllib.loads((root / ROOTFS).read_text(encoding="utf-8"))
        seen = {name: version for layer in debian["layer"] for name, version in layer.get("seen", {}).items()}
        in_root = ".".join(seen["python3"].split(".")[:2])
        return cls(toolchain["cuda"], {"rootfs": (in_root,), "host": tuple(toolchain.get("python", ()))})


def expand(matrix: Path = HERE / "matrix.toml", root: Path = HERE.parent) -> list[Job]:
    """All jobs, in an order in which they could run one by one; ``root`` is the checkout. Raises MatrixError."""
    document = tomllib.loads(matrix.read_text(encoding="utf-8"))
    limits = Limits(**{name: int(value) for name, value in document["limits"].items()})
    jobs: list[Job] = []
    for number, entry in enumerate(document.get("build", [])):
        jobs += _jobs(entry, f"{matrix.name}: build[{number}]", root, limits)
    names = [job.name for job in jobs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise MatrixError(f"{matrix.name}: {', '.join(repeated)}: named by two entries")
    return jobs


def _jobs(entry: dict[str, Any], where: str, root: Path, limits: Limits) -> list[Job]:
    missing = {"release", "env", "python", "cuda"} - set(entry)
    if missing:
        raise MatrixError(f"{where}: {', '.join(sorted(missing))}: missing")
    release, env = str(entry["release"]), str(entry["env"])
    if not (root / "series" / release).is_file():
        raise MatrixError(f"{where}: release {release}: there is no series/{release}")
    can = Buildable.of(release, root)
    for python in entry["python"]:
        if python not in can.python.get(env, ()):
            offered = ", ".join(can.python.get(env, ())) or "nothing"
            raise MatrixError(f"{where}: python {python}: environment {env!r} builds for {offered}")
    for cuda in entry["cuda"]:
        if cuda != can.cuda:
            raise MatrixError(f"{where}: cuda {cuda}: series {release} builds with {can.cuda}")
    revision = int(entry.get("revision", 0))
    build = ("nox", "-s", f"build-{release}", "--", "--env", env, *(("--revision", str(revision)) if revision else ()))
    return [job for python in entry["python"] for job in _of_python(release, env, python, entry["cuda"], build, limits)]


def _of_python(
    release: str, env: str, python: str, cuda: dict[str, list[str]], build: tuple[str, ...], limits: Limits
) -> list[Job]:
    """The jobs of one Python version: the core, and for each CUDA version its wheel and the two checks of both."""
    suffix = f"{release}-py{python}"
    state = f"build/{release}/state"
    wheel = f"dist/{release}/torch{{}}-*.whl*"

    def job(stage: str, name: str, needs: tuple[str, ...], *commands: tuple[str, ...], paths: tuple[str, ...]) -> Job:
        cache = name if stage in ("core", "cuda") else ""
        spare = limits.job_minutes - limits.spare_minutes
        return Job(name, stage, release, python, needs, commands, cache, paths, limits.job_minutes, spare)

    core = f"core-{suffix}"
    jobs = [job("core", core, (), (*build, "--stage", "1"), paths=(wheel.format(""), f"{state}/stage1.json"))]
    for version, architectures in cuda.items():
        name = f"cu{version.replace('.', '')}-{suffix}"
        compile_cuda = (*build, "--stage", "2", "--arch", ";".join(architectures))
        paths = (wheel.format("_cuda"), f"{state}/stage2.json")
        jobs.append(job("cuda", name, (core,), compile_cuda, paths=paths))
        # upstream's CPU tests are run from the applied tree; to enter the root takes one in any case
        apply = ("nox", "-s", f"apply-{release}", *(("--", "--debian-patches") if env == "rootfs" else ()))
        verify = ("nox", "-s", f"verify-{release}", "--", "--env", env)
        status = (f"ci/status/{release}.json",)
        jobs.append(job("verify", f"verify-{name}", (core, name), apply, verify, paths=status))
        contract = ("nox", "-s", f"contract-{release}", "--", "--env", env, "--beside-cuda")
        report = f"build/{release}/verify/contract-both/report"
        jobs.append(job("contract", f"contract-{name}", (core, name), apply, contract, paths=(report, *status)))
    return jobs


def github(jobs: list[Job]) -> dict[str, object]:
    """One ``strategy.matrix`` value per stage: ``{"core": {"include": [...]}, …}``.

    ``script`` is what the build step runs; ``core`` and ``backend`` name the artifacts that it needs, or are empty.
    """
    stages: dict[str, list[dict[str, object]]] = {}
    for job in jobs:
        row: dict[str, object] = {name: getattr(job, name) for name in ("name", "release", "cache", "minutes")}
        needs = dict(zip(("core", "backend"), (*job.needs, "", "")[:2], strict=True))
        row |= needs | {
            "build_minutes": job.build_minutes,
            "script": "\n".join(f"pipx run {line}" for line in _lines(job)),
        }
        stages.setdefault(job.stage, []).append(row | {"paths": "\n".join(job.paths)})
    return {stage: {"include": rows} for stage, rows in stages.items()}


def gitlab(jobs: list[Job]) -> dict[str, object]:
    """A child pipeline (JSON is YAML): each job with its needs, cache and limits, at the end a job that makes the site.

    Its runners must be privileged: the Debian root is entered through mounts.
    """
    pipeline: dict[str, object] = {
        "stages": [*sorted({job.stage for job in jobs}, key=list(STAGES).index), "publish"],
        "default": {
            "image": "debian:trixie",
            "before_script": [f"apt-get update && apt-get install -y --no-install-recommends {' '.join(DEBIAN)}"],
        },
        "variables": {"XDG_CACHE_HOME": "$CI_PROJECT_DIR/.cache", "GIT_DEPTH": "0"},
    }
    for job in jobs:
        pipeline[job.name] = {
            "stage": job.stage,
            "needs": list(job.needs),
            "timeout": f"{job.minutes} minutes",
            "script": [f"timeout --signal=INT {job.build_minutes}m pipx run {line}" for line in _lines(job)],
            **({"cache": _gitlab_cache(job)} if job.cache else {}),
            "artifacts": {"paths": list(job.paths)},
        }
    releases = sorted({job.release for job in jobs})
    publish = [f"pipx run --spec . decouple index build dist/{release} --site site" for release in releases]
    pipeline["publish"] = {
        "stage": "publish",
        "needs": [job.name for job in jobs],
        "script": [*publish, "pipx run --spec . decouple index check site"],
        "artifacts": {"paths": ["site/"]},
    }
    return pipeline


def _gitlab_cache(job: Job) -> dict[str, object]:
    return {"key": job.cache, "paths": [".cache/decouple/ccache"], "when": "always"}  # also of a run that was ended


def _lines(job: Job) -> list[str]:
    return [shlex.join(command) for command in job.commands]


def main(argv: list[str] | None = None) -> int:
    """Print the jobs; exit 2 when the matrix is wrong."""
    parser = argparse.ArgumentParser(description="expand ci/matrix.toml into jobs")
    parser.add_argument("--host", choices=("plain", "github", "gitlab"), default="plain")
    parser.add_argument("--command-of", metavar="JOB", help="print the command lines of one job instead")
    arguments = parser.parse_args(argv)
    try:
        jobs = expand()
    except (MatrixError, OSError, ValueError) as error:
        print(f"ci: {error}", file=sys.stderr)
        return 2
    if arguments.command_of:
        found = [job for job in jobs if job.name == arguments.command_of]
        if not found:
            names = ", ".join(job.name for job in jobs)
            print(f"ci: no job {arguments.command_of}; there are {names}", file=sys.stderr)
            return 2
        print("\n".join(_lines(found[0])))
        return 0
    shapes = {"plain": lambda: [dataclasses.asdict(job) for job in jobs], "github": lambda: github(jobs)}
    document = shapes.get(arguments.host, lambda: gitlab(jobs))()
    print(json.dumps(document, indent=None if arguments.host == "github" else 2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
