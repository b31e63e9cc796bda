"""Time ``decouple check`` against a full checkout and ``git apply``.

Rounds alternate; process start is included.

    python scripts/bench/check.py [--rounds 3] [--release 2.6] [--json FILE]

Both sides answer "does this series apply to this release?" and start from the same file, the .orig archive in the cache
(downloaded once). Two pairs, because both sides may keep something between two runs:

* cold: unpack the archive and ``git apply`` every patch, against ``check --source ARCHIVE`` with an empty cache;
* warm: a worktree of the release's git baseline and ``git apply``, against the same check with what it kept.

The floor is what the cold check cannot avoid: decompressing the archive once (``xz -dc -T0``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _timing import Sample, run_bench, take_median, time_action

from decouple.base.checkout import Checkout
from decouple.base.interpreter import OWN
from decouple.base.paths import find_cache, find_project
from decouple.patch.series_file import read_series
from decouple.upstream.download import Downloader
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.debian import DebianSource


def measure_check(release: str = "2.6", rounds: int = 3) -> dict[str, Any]:
    """Measure the median seconds of each side, their ratios, and the floor.

    Raises DecoupleError, CalledProcessError.
    """
    project = find_project()
    source = load_release(project, release).find_source("debian")
    assert isinstance(source, DebianSource), f"release {release} has no Debian source"
    archive, _ = Downloader(find_cache()).fetch_file(source.orig)
    checkout = Checkout(project)
    patches = [str(checkout.patches / name) for name in read_series(checkout.locate_series(release)).names]
    with tempfile.TemporaryDirectory(prefix="decouple-bench-") as name:
        scratch = Path(name)
        baseline = _make_baseline(archive, scratch)
        sides: dict[str, Callable[[], None]] = {
            "unpack + git apply": lambda: _unpack_and_apply(archive, patches, scratch),
            "check, cold": lambda: _check_release(project, release, archive, scratch, cold=True),
            "worktree + git apply": lambda: _worktree_and_apply(baseline, patches, scratch),
            "check, warm": lambda: _check_release(project, release, archive, scratch, cold=False),
            "floor: decompress": lambda: _run_command(["xz", "-dc", "-T0", str(archive)], scratch),
        }
        samples: dict[str, list[Sample]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, work in sides.items():
                samples[side].append(time_action(work))
    wall = {side: take_median(taken).wall for side, taken in samples.items()}
    work_done = {side: take_median(taken).cpu for side, taken in samples.items()}
    return {
        "bench": "check",
        "release": release,
        "patches": len(patches),
        "rounds": rounds,
        "seconds": {side: round(value, 3) for side, value in wall.items()},
        "cpu seconds": {side: round(value, 3) for side, value in work_done.items()},
        "times faster, cold": round(wall["unpack + git apply"] / wall["check, cold"], 1),
        "times faster, warm": round(wall["worktree + git apply"] / wall["check, warm"], 1),
        "times faster, warm check against cold checkout": round(wall["unpack + git apply"] / wall["check, warm"], 1),
        "times less processor, cold": round(work_done["unpack + git apply"] / work_done["check, cold"], 1),
        "times less processor, warm": round(work_done["worktree + git apply"] / work_done["check, warm"], 1),
    }


def _run_command(command: list[str], folder: Path, **environment: str) -> None:
    subprocess.run(
        command,
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | environment,
    )


def _git_apply(folder: Path, patches: list[str]) -> None:
    for patch in patches:
        _run_command(["git", "apply", patch], folder, GIT_CEILING_DIRECTORIES=str(folder.parent))


def _unpack_and_apply(archive: Path, patches: list[str], scratch: Path) -> None:
    folder = scratch / "unpacked"
    folder.mkdir()
    _run_command(["tar", "-x", "--strip-components=1", "-f", str(archive)], folder)
    _git_apply(folder, patches)
    shutil.rmtree(folder)


def _make_baseline(archive: Path, scratch: Path) -> Path:
    """Make a git repository with the archive as its only commit, once, not measured."""
    folder = scratch / "baseline"
    folder.mkdir()
    _run_command(["tar", "-x", "--strip-components=1", "-f", str(archive)], folder)
    for command in (
        ["init", "-q"],
        ["add", "-A", "-f"],
        ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "-q", "-m", "baseline"],
    ):
        _run_command(["git", *command], folder)
    return folder


def _worktree_and_apply(baseline: Path, patches: list[str], scratch: Path) -> None:
    folder = scratch / "worktree"
    _run_command(["git", "worktree", "add", "-q", "--detach", str(folder)], baseline)
    _git_apply(folder, patches)
    _run_command(["git", "worktree", "remove", "--force", str(folder)], baseline)


def _check_release(project: Path, release: str, archive: Path, scratch: Path, *, cold: bool) -> None:
    cache = scratch / "cache"
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
    command = [*OWN, "-m", "decouple", "check", release, "--source", str(archive)]
    _run_command(command, scratch, DECOUPLE_CACHE=str(cache), DECOUPLE_PROJECT=str(project))


if __name__ == "__main__":
    run_bench(__doc__, measure_check, release="2.6", rounds=3)
