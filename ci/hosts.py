"""Jobs in the shapes that CI hosts take."""

from __future__ import annotations

import shlex

from jobs import STAGES, Job

DEBIAN = ("git", "pipx", "xz-utils", "mmdebstrap", "mount")  # what README.md asks of a bare Debian


def list_command_lines(job: Job) -> list[str]:
    """Return the job's shell commands; each begins with a program ``pipx run`` knows."""
    return [shlex.join(command) for command in job.commands]


def list_check_lines(job: Job) -> list[str]:
    """Return the shell command that fails where a part of a job is missing.

    A part is one of the paths that it hands over; none where it hands over nothing. The hosts themselves are content
    with an artifact that lacks some of its paths.
    """
    return [f"ls -d {' '.join(job.paths)}"] if job.paths else []  # not quoted: they are patterns


def make_github_matrix(jobs: list[Job]) -> dict[str, object]:
    """Make a ``strategy.matrix`` per stage: ``{"core": {"include": [...]}, …}``.

    ``script`` is what the build step runs; ``core`` and ``backend`` name the artifacts that it needs, ``shards`` is a
    pattern of those that it lays over each other. Empty: none.
    """
    stages: dict[str, list[dict[str, object]]] = {}
    for job in jobs:
        row: dict[str, object] = {name: getattr(job, name) for name in ("name", "release", "cache", "minutes")}
        needs = dict(zip(("core", "backend"), (*job.needs, "", "")[:2], strict=True))
        row |= needs | {
            "build_minutes": job.build_minutes,
            "script": "\n".join((*(f"pipx run {line}" for line in list_command_lines(job)), *list_check_lines(job))),
            "shards": _make_shard_pattern(job.shards),
        }
        stages.setdefault(job.stage, []).append(row | {"paths": "\n".join(job.paths)})
    return {stage: {"include": rows} for stage, rows in stages.items()}


def _make_shard_pattern(names: tuple[str, ...]) -> str:
    """``shard-*-core-2.6-…`` of ``shard-1-core-2.6-…`` and the others."""
    if not names:
        return ""
    prefix = "shard-"
    return prefix + "*-" + names[0].removeprefix(prefix).partition("-")[2]


def make_gitlab_pipeline(jobs: list[Job]) -> dict[str, object]:
    """Return a child pipeline: each job with its needs, cache and limits.

    It is YAML, as JSON is. At the end stands a job that makes the site. Its runners must be privileged: the Debian root
    is entered through mounts.
    """
    used = {job.stage for job in jobs}
    pipeline: dict[str, object] = {
        "stages": [*(stage for stage in STAGES if stage in used), "publish"],
        "default": {
            "image": "debian:trixie",
            "before_script": [f"apt-get update && apt-get install -y --no-install-recommends {' '.join(DEBIAN)}"],
        },
        "variables": {"XDG_CACHE_HOME": "$CI_PROJECT_DIR/.cache", "GIT_DEPTH": "0"},
    }
    for job in jobs:
        pipeline[job.name] = {
            "stage": job.stage,
            "needs": [*job.needs, *job.shards],
            "timeout": f"{job.minutes} minutes",
            "script": [
                *(f"timeout --signal=INT {job.build_minutes}m pipx run {line}" for line in list_command_lines(job)),
                *list_check_lines(job),
            ],
            **({"cache": _make_gitlab_cache(job)} if job.cache else {}),
            **({"artifacts": {"paths": list(job.paths)}} if job.paths else {}),
        }
    releases = sorted({job.release for job in jobs if job.published})
    index = "pipx run --spec '.[publish]' decouple index"
    publish = [f"{index} build dist/{release} --site site" for release in releases]
    pipeline["publish"] = {
        "stage": "publish",
        "needs": [
            *(job.name for job in jobs if job.published),
            *({"job": job.name, "artifacts": False} for job in jobs if job.stage in ("verify", "contract")),
        ],
        "script": [*publish, f"{index} check site"],
        "artifacts": {"paths": ["site/"]},
    }
    return pipeline


def _make_gitlab_cache(job: Job) -> dict[str, object]:
    return {"key": job.cache, "paths": [".cache/decouple/ccache"], "when": "always"}  # also of a run that was ended
