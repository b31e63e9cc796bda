"""Expand ``ci/matrix.toml`` into jobs.

``python ci/matrix.py`` prints them as JSON; ``--host github`` prints what ``strategy.matrix`` takes, one object per
stage, ``--host gitlab`` a child pipeline. ``nox -s ci -- JOB`` runs one here.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable

import hosts
from jobs import Job, MatrixError, expand


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
        print("\n".join(hosts.lines(found[0])))
        return 0
    shapes: dict[str, Callable[[list[Job]], object]] = {
        "plain": lambda every: [dataclasses.asdict(job) for job in every],
        "github": hosts.github,
        "gitlab": hosts.gitlab,
    }
    print(json.dumps(shapes[arguments.host](jobs), indent=None if arguments.host == "github" else 2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
