"""Time what a command costs before it does anything: start-up and quick verbs.

Figures are ratios in one run.

    python scripts/bench/startup.py [--rounds 11] [--before CHECKOUT] [--json FILE]

Each verb runs as a new process on a series of three patches, in rounds that alternate with the yardsticks: git's and
Python's own start, and `quilt top` on the same series. Processor time, the least of all rounds: what else runs on the
machine only adds. ``--before`` measures the package of another checkout (``git worktree add``) in the same rounds. Aim:
``--version`` and ``series --top`` take at most twice the processor time of ``python -c "import argparse"``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _timing import run_bench, time_action

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import OWN
from decouple.base.paths import find_project

RELEASE = "2.6"
YARDSTICK = "python -c 'import argparse'"
#: verb -> its words, and those that undo it
VERBS: dict[str, tuple[list[str], list[str]]] = {
    "--version": (["--version"], []),
    "series --top": (["series", RELEASE, "--top"], []),
    "series --applied": (["series", RELEASE, "--applied"], []),
    "series": (["series", RELEASE], []),
    "push": (["push", RELEASE], ["pop", RELEASE]),
    "status": (["status", RELEASE], []),
    "check": (["check", RELEASE, "--source", "source"], []),
    "lint": (["lint", RELEASE], []),
    "--help": (["--help"], []),
}


def measure_verbs(rounds: int, before: Path | None) -> dict[str, Any]:
    """Measure processor ms per verb, and ratios to yardsticks. Raises DecoupleError."""
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as scratch:
        return _measure_below(Path(scratch), rounds, before and before.resolve())


def _measure_below(scratch: Path, rounds: int, before: Path | None) -> dict[str, Any]:
    ours = Path(find_project()) / "scripts"
    packages = {"now": ours} | ({"before": before / "scripts"} if before else {})
    project = _make_project(scratch)
    quilt = shutil.which("quilt")
    folders = {"QUILT_PATCHES": str(project / "patches"), "QUILT_SERIES": str(project / "series" / RELEASE)}
    quilted = {**os.environ, **folders}
    quilt_source = project / "quilted"  # `check` takes the source without a patch
    if quilt:
        shutil.copytree(project / "source", quilt_source)
        _run_command([quilt, "--quiltrc", "-", "push", "2"], quilt_source, quilted)
    least: dict[str, float] = {}

    def sample_command(
        name: str, command: list[str], environment: Mapping[str, str], undo: Sequence[str] = (), folder: Path = project
    ) -> None:
        least[name] = min(
            least.get(name, 1e9), time_action(lambda: _run_command(command, folder, environment)).cpu * 1000
        )
        if undo:
            _run_command([*OWN, "-m", "decouple", *undo], project, environment)

    for _ in range(rounds):
        sample_command(YARDSTICK, [*OWN, "-c", "import argparse"], os.environ)
        sample_command("git --version", ["git", "--version"], os.environ)
        if quilt:
            sample_command("quilt top", [quilt, "--quiltrc", "-", "top"], quilted, folder=quilt_source)
        for name, package in packages.items():
            environment = _make_environment(project, package)
            for verb, (words, undo) in VERBS.items():
                sample_command(f"{name} {verb}", [*OWN, "-m", "decouple", *words], environment, undo)
    yardsticks = [one for one in (YARDSTICK, "git --version", "quilt top") if one in least]
    return {
        "name": "start-up and quick verbs",
        "rounds": rounds,
        "cpu_ms": {name: round(value, 1) for name, value in least.items()},
        "ratios": {
            name: {one: round(value / least[one], 2) for one in yardsticks}
            for name, value in least.items()
            if name not in yardsticks
        },
        "aim": {"now --version": 2.0, "now series --top": 2.0, "against": YARDSTICK},
    }


def _make_environment(project: Path, package: Path) -> dict[str, str]:
    cache = str(project.parent / "cache")
    return {**os.environ, "PYTHONPATH": str(package), "DECOUPLE_PROJECT": str(project), "DECOUPLE_CACHE": cache}


def _run_command(command: list[str], folder: Path, environment: Mapping[str, str] = os.environ) -> str:
    done = subprocess.run(command, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode and (done.returncode, command[-2:]) != (1, ["status", RELEASE]):  # 1: not all is applied
        raise DecoupleError(f"{' '.join(command)}: {done.stderr.strip()}", next_step="run it by hand")
    return done.stdout


def _make_project(scratch: Path) -> Path:
    """Make a checkout of a hundred files with three patches, two of them applied."""
    project, source, maker = (scratch / name for name in ("project", "project/source", "maker"))
    for folder in (project / "series", project / "patches" / RELEASE, source):
        folder.mkdir(parents=True)
    lines = [f"line {number}\n" for number in range(100)]
    for number in range(100):
        (source / f"file{number}.txt").write_text("".join(lines))
    (source / "setup.py").write_text("")
    shutil.copy2(find_project() / "series" / f"{RELEASE}.toml", project / "series")
    shutil.copytree(source, maker)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=b", "-c", "user.email=b@l", "commit", "-qm", "base"],
    ):
        _run_command(["git", *words], maker)
    names = []
    for number in range(3):
        lines[number * 20] = "changed\n"
        (maker / "file0.txt").write_text("".join(lines))
        names.append(f"{RELEASE}/000{number + 1}-change.patch")
        header = (
            f"From: B <b@example.org>\nDate: Mon, 3 Feb 2025 10:00:00 +0100\nSubject: change {number}\n\n"
            f"Why.\n\nDecouple-Id: change-{number}\nForwarded: no\nLast-Update: 2025-02-03\n"
            "Drop-When: the bench is over\nVerify: true\n---\n"
        )
        diff = _run_command(["git", "diff", "--full-index"], maker)
        (project / "patches" / names[-1]).write_text(header + diff)
        _run_command(["git", "add", "-A"], maker)
    (project / "series" / RELEASE).write_text("".join(f"{name}\n" for name in names))
    ours = [*OWN, "-m", "decouple"]
    environment = _make_environment(project, find_project() / "scripts")
    _run_command([*ours, "apply", RELEASE, "--source", f"local:{source}"], project, environment)
    _run_command([*ours, "pop", RELEASE], project, environment)
    return project


def format_verbs(found: dict[str, Any]) -> str:
    """Return a line per verb and yardstick."""
    lines = []
    for name, milliseconds in found["cpu_ms"].items():
        ratios = ", ".join(f"{ratio} x {one}" for one, ratio in found["ratios"].get(name, {}).items())
        lines.append(f"{milliseconds:8.1f} ms  {name:<20} {ratios}\n")
    return "".join(lines)


if __name__ == "__main__":
    run_bench(__doc__, measure_verbs, format_verbs, rounds=11, before=Path)
