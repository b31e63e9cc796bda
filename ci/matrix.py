"""Expand ``ci/matrix.toml`` into jobs: stage 1 once per release and Python, stage 2 once per CUDA version on top of it.

``python ci/matrix.py`` prints them as JSON; ``--host github`` prints what ``strategy.matrix`` takes, one object per
stage, ``--host gitlab`` a child pipeline. ``nox -s ci -- JOB`` runs one here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class MatrixError(Exception):
    """The matrix names something that cannot be built; the message names the entry and the key."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One job of a CI host. ``command`` runs in the checkout; ``cache`` names the ccache it shares with other runs."""

    name: str
    stage: str
    release: str
    python: str
    needs: tuple[str, ...]
    command: tuple[str, ...]
    cache: str
    minutes: int


def expand(matrix: Path = HERE / "matrix.toml", series: Path = HERE.parent / "series") -> list[Job]:
    """All jobs in an order in which they could run one after the other. Raises MatrixError."""
    document = tomllib.loads(matrix.read_text(encoding="utf-8"))
    minutes = int(document["limits"]["job_minutes"])
    jobs: list[Job] = []
    for number, entry in enumerate(document.get("build", [])):
        jobs += _jobs(entry, f"{matrix.name}: build[{number}]", series, minutes)
    names = [job.name for job in jobs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise MatrixError(f"{matrix.name}: {', '.join(repeated)}: named by two entries")
    return jobs


def _jobs(entry: dict[str, Any], where: str, series: Path, minutes: int) -> list[Job]:
    missing = {"release", "env", "python", "cuda"} - set(entry)
    if missing:
        raise MatrixError(f"{where}: {', '.join(sorted(missing))}: missing")
    release = str(entry["release"])
    if not (series / release).is_file():
        raise MatrixError(f"{where}: release {release}: there is no series/{release}")
    jobs: list[Job] = []
    for python in entry["python"]:
        suffix = f"{release}-py{python}"
        common = ("nox", "-s", f"build-{release}", "--", "--env", entry["env"])
        core = Job(
            name=f"core-{suffix}",
            stage="core",
            release=release,
            python=python,
            needs=(),
            command=(*common, "--stage", "1"),
            cache=f"core-{suffix}",
            minutes=minutes,
        )
        jobs.append(core)
        for cuda, architectures in entry["cuda"].items():
            label = "cu" + cuda.replace(".", "")
            jobs.append(
                Job(
                    name=f"{label}-{suffix}",
                    stage="cuda",
                    release=release,
                    python=python,
                    needs=(core.name,),
                    command=(*common, "--stage", "2", "--arch", ";".join(architectures)),
                    cache=f"{label}-{suffix}",
                    minutes=minutes,
                )
            )
        jobs.append(
            Job(
                name=f"verify-{suffix}",
                stage="verify",
                release=release,
                python=python,
                needs=tuple(job.name for job in jobs if job.stage != "verify" and job.python == python),
                command=("nox", "-s", f"verify-{release}"),
                cache="",
                minutes=60,
            )
        )
    return jobs


def github(jobs: list[Job]) -> dict[str, object]:
    """One ``strategy.matrix`` value per stage: ``{"core": {"include": [...]}, …}``."""
    stages: dict[str, list[dict[str, object]]] = {}
    for job in jobs:
        row = dataclasses.asdict(job) | {"command": _shell(job)}
        stages.setdefault(job.stage, []).append(row)
    return {stage: {"include": rows} for stage, rows in stages.items()}


def gitlab(jobs: list[Job]) -> dict[str, object]:
    """A child pipeline (JSON is YAML), each job with its needs, cache and time limit."""
    pipeline: dict[str, object] = {"stages": sorted({job.stage for job in jobs}, key=["core", "cuda", "verify"].index)}
    for job in jobs:
        pipeline[job.name] = {
            "stage": job.stage,
            "needs": list(job.needs),
            "timeout": f"{job.minutes} minutes",
            "script": ["pipx install nox", _shell(job)],
            "variables": {"XDG_CACHE_HOME": "$CI_PROJECT_DIR/.cache"},
            **({"cache": {"key": job.cache, "paths": [".cache/decouple/ccache"]}} if job.cache else {}),
            "artifacts": {"paths": ["dist/"]},
        }
    return pipeline


def _shell(job: Job) -> str:
    import shlex

    return shlex.join(job.command)


def main(argv: list[str] | None = None) -> int:
    """Print the jobs; exit 2 when the matrix is wrong."""
    parser = argparse.ArgumentParser(description="expand ci/matrix.toml into jobs")
    parser.add_argument("--host", choices=("plain", "github", "gitlab"), default="plain")
    parser.add_argument("--command-of", metavar="JOB", help="print the command line of one job instead")
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
        print(_shell(found[0]))
        return 0
    shapes = {"plain": lambda: [dataclasses.asdict(job) for job in jobs], "github": lambda: github(jobs)}
    document = shapes.get(arguments.host, lambda: gitlab(jobs))()
    print(json.dumps(document, indent=None if arguments.host == "github" else 2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
