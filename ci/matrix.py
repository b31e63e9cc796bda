"""Expand ``ci/matrix.toml`` into jobs.

``python ci/matrix.py`` prints them as a table, ``--json`` with all that belongs to each; ``--host github`` prints what
``strategy.matrix`` takes, one object per stage, ``--host gitlab`` a child pipeline. ``nox -s ci -- JOB`` runs one here.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import sys
from collections.abc import Callable

import hosts
from jobs import Job, MatrixError, expand_matrix


def main(argv: list[str] | None = None) -> int:
    """Print the jobs; exit 2 when the matrix is wrong."""
    parser = argparse.ArgumentParser(description="expand ci/matrix.toml into jobs")
    parser.add_argument("--host", choices=("github", "gitlab"), help="print what this CI host takes")
    parser.add_argument("--json", action="store_true", help="print everything of every job, as JSON")
    parser.add_argument("--command-of", metavar="JOB", help="print the command lines of one job instead")
    arguments = parser.parse_args(argv)
    try:
        jobs = expand_matrix()
    except (MatrixError, OSError, ValueError) as error:
        print(f"ci: {error}", file=sys.stderr)
        return 2
    if arguments.command_of:
        chosen = [job for job in jobs if job.name == arguments.command_of]
        if not chosen:
            near = difflib.get_close_matches(arguments.command_of, [job.name for job in jobs], 3)
            meant = f"; did you mean {' or '.join(near)}?" if near else ";"
            print(f"ci: no job {arguments.command_of}{meant} `nox -s ci` lists them", file=sys.stderr)
            return 2
        print("\n".join(hosts.list_command_lines(chosen[0])))
        return 0
    shapes: dict[str, Callable[[list[Job]], object]] = {
        "github": hosts.make_github_matrix,
        "gitlab": hosts.make_gitlab_pipeline,
    }
    if arguments.host:
        print(json.dumps(shapes[arguments.host](jobs), indent=None if arguments.host == "github" else 2))
    elif arguments.json:
        print(json.dumps([dataclasses.asdict(job) for job in jobs], indent=2))
    else:
        print("\n".join(format_table(jobs)))
    return 0


def format_table(jobs: list[Job]) -> list[str]:
    """Return a line per job, for persons.

    It says the job's name, its stage, how long it may take, and what must be there before.
    """
    wide = max(len(job.name) for job in jobs)
    stage = max(len(job.stage) for job in jobs)
    lines = [f"{'job':<{wide}}  {'stage':<{stage}}  minutes  after"]
    for job in jobs:
        before = ", ".join((*job.needs, *([f"{len(job.shards)} shards"] if job.shards else []))) or "-"
        lines.append(f"{job.name:<{wide}}  {job.stage:<{stage}}  {job.minutes:>7}  {before}")
    return [*lines, f"{len(jobs)} jobs; `nox -s ci -- JOB` runs one here, `nox -s ci -- --json` prints their commands"]


if __name__ == "__main__":
    raise SystemExit(main())
