"""Time the rebase of the whole 2.6 series between two real trees.

The forecast over every release is timed with a warm cache.

    python scripts/bench/rebase.py [--rounds 3] [--json FILE]

The yardstick of the rebase is ``git am -3`` of the same patches on the same tree (Debian's patched 2.6.0), process
starts included; each round measures one after the other, and on a busy machine the processor times say more. The
forecast is told in seconds and in bytes fetched per release against the size of that release's wheel. Aims: seconds,
and bytes far below one wheel per release.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from _timing import Sample, run_bench, take_median, time_action

from decouple.base.checkout import Checkout
from decouple.base.interpreter import OWN
from decouple.base.paths import find_cache, find_project
from decouple.series import check
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.download import Downloader
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifest_sources import open_source
from decouple.upstream.manifests import load_release
from decouple.upstream.providers.wheel import WheelSource

_DECOUPLE = [*OWN, "-m", "decouple"]


def measure(rounds: int = 3) -> dict[str, Any]:
    """Measure seconds (medians), the ratio, and what the forecast read.

    Raises DecoupleError when the source cannot be had.
    """
    project = find_project()
    manifest = load_release(project, "2.6")
    baseline = ensure_baseline(find_cache(), manifest, fetch_source(manifest, "debian"), debian_patches=True)
    patches = [patch.name for patch in check.load_series(project, "2.6")]
    report = [*_DECOUPLE, "rebase", "2.6", "2.6", "--debian-patches", "--report"]
    ours, git = [], []
    for _ in range(rounds):
        ours.append(_seconds(report, project))
        with tempfile.TemporaryDirectory() as folder:
            git.append(_git_am(baseline.repo, baseline.commit, project, patches, Path(folder)))
    forecast = _seconds([*_DECOUPLE, "forecast", "2.6"], project)
    warm = [_seconds([*_DECOUPLE, "forecast", "2.6"], project) for _ in range(rounds)]
    return {
        "patches": len(patches),
        "rebase_seconds": take_median(ours).wall,
        "git_am_3_seconds": take_median(git).wall,
        "rebase_cpu_seconds": take_median(ours).cpu,
        "git_am_3_cpu_seconds": take_median(git).cpu,
        "ratio": statistics.median(a.wall / b.wall for a, b in zip(ours, git, strict=True)),
        "ratio_cpu": statistics.median(a.cpu / b.cpu for a, b in zip(ours, git, strict=True)),
        "forecast_first_seconds": forecast.wall,
        "forecast_warm_seconds": take_median(warm).wall,
        "forecast_warm_cpu_seconds": take_median(warm).cpu,
        "forecast_sources": _sources(project),
    }


def _git_am(repo: Path, commit: str, project: Path, patches: list[str], folder: Path) -> Sample:
    """``git am -3`` of the series in a fresh clone; the checkout is not counted."""
    tree = folder / "tree"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    subprocess.run([*git, "clone", "-q", "--shared", "--no-checkout", str(repo), str(tree)], check=True)
    subprocess.run([*git, "checkout", "-q", commit], cwd=tree, check=True, capture_output=True)
    files = [str(Checkout(project).patches / name) for name in patches]
    spent = _seconds([*git, "am", "-q", "-3", *files], tree)
    shutil.rmtree(tree)
    return spent


def _sources(project: Path) -> dict[str, dict[str, Any]]:
    """Measure, per release, what a forecast reads of the wheel into an empty cache.

    The size of the whole wheel stands beside it (bytes).
    """
    wanted = check.list_wanted_paths(check.load_series(project, "2.6"))
    found = {}
    for release in Checkout(project).list_manifest_releases():
        manifest = load_release(project, release)
        source = manifest.find_source("wheel")
        if isinstance(source, WheelSource):
            with tempfile.TemporaryDirectory() as empty:
                opened, _ = open_source(manifest, "wheel", wanted, Downloader(Path(empty)))
            found[release] = {"read": opened.described, "wheel_bytes": source.wheel.size}
    return found


def _seconds(command: list[str], folder: Path) -> Sample:
    """Time a command.

    Raises CalledProcessError for one that fails: its time says nothing.
    """
    return time_action(partial(subprocess.run, command, cwd=folder, check=True, capture_output=True))


if __name__ == "__main__":
    run_bench(__doc__, measure, rounds=3)
