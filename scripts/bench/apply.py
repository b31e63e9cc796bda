"""Time the whole series against ``git am`` and ``quilt push -a``.

A push of one patch is timed on a big and on a small tree.

    python scripts/bench/apply.py [--rounds 5] [--json FILE] [--scratch FOLDER]

All work on the same series and the same tree, in alternating rounds of one run, each as a new process. The floor is
``git apply --cached`` of the whole series into one index: no commits, no work tree. Aims: at most the time
of ``git am``; a one-patch push that does not depend on the size of the tree.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _timing import Sample, run_bench, take_median, time_action

from decouple.base.checkout import Checkout, SeriesPlaces
from decouple.base.errors import DecoupleError
from decouple.base.git import Repository
from decouple.base.interpreter import OWN
from decouple.base.paths import find_cache, find_project
from decouple.patch import series_file
from decouple.stack.commits import CommitText, NewCommit, write_chain
from decouple.stack.engine import create_tree
from decouple.stack.trees import TreeEntry, read_entries
from decouple.upstream.baseline import ensure_baseline
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release

RELEASE = "2.6"
SMALL = 100
_NOBODY = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def measure_series(scratch: Path, rounds: int = 5) -> dict[str, Any]:
    """Time ours, git am, quilt and the floor on the project's series.

    Seconds and ratios; ours includes process start. ``ratio`` (wall) and ``cpu_ratio`` are of medians; ``best_ratio``
    and ``best_cpu_ratio`` of each side's least, as what else runs on the machine only adds.
    """
    project, places, base = _make_project(scratch / "ours")
    names = series_file.read_series(places.series).names
    patches = [str(places.patches / name) for name in names]
    am = _clone_tree(places.tree, scratch / "am", base)
    plain = _clone_tree(places.tree, scratch / "quilt", base)
    quilt = shutil.which("quilt")
    environment = {
        **os.environ,
        "DECOUPLE_PROJECT": str(project),
        "QUILT_PATCHES": str(places.patches),
        "QUILT_SERIES": str(places.series),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    run = functools.partial(_run_command, environment=environment)
    samples: dict[str, list[Sample]] = {"ours": [], "git am": [], "quilt": [], "floor": []}
    written = 0
    for _ in range(rounds):
        push = [*OWN, "-m", "decouple", "push", RELEASE, "-a", "--no-overlay"]
        samples["ours"].append(time_action(lambda: run(push, places.tree)))  # noqa: B023 - called at once
        written = _changed_bytes(places.tree, base)
        run([*OWN, "-m", "decouple", "pop", RELEASE, "-a"], places.tree)
        samples["git am"].append(
            time_action(lambda: run(["git", *_NOBODY, "am", "-q", "--whitespace=nowarn", *patches], am))
        )
        if _read_tree(am) != _tree_applied(places.tree):
            raise DecoupleError(
                "git am and we do not agree on the tree", next_step="pytest tests/real/test_same_tree.py"
            )
        run(["git", "reset", "-q", "--hard", base], am)
        if quilt:
            samples["quilt"].append(time_action(lambda: run([quilt, "--quiltrc", "-", "push", "-aq"], plain)))
            # not `quilt pop`: it does not bring back an empty file that was renamed (torch/cuda/error.py; quilt 0.66)
            run(["git", "reset", "-q", "--hard", base], plain)
            run(["git", "clean", "-q", "-fdx"], plain)
        index = {**environment, "GIT_INDEX_FILE": str(scratch / "floor.index")}
        shutil.copy2(am / ".git/index", scratch / "floor.index")
        floor = ["git", "apply", "--cached", "--whitespace=nowarn", *patches]
        samples["floor"].append(time_action(lambda: _run_command(floor, am, index)))  # noqa: B023 - called at once
    result = _tabulate_samples(samples, against="git am")
    size, write_seconds = written, time_action(lambda: _write_bytes(scratch / "written", written)).wall
    return {
        "name": "whole series: push -a / git am",
        "patches": len(names),
        **result,
        "aim": 1.0,
        "floor": {"bytes_written": size, "write_s": round(write_seconds, 3)},
        "rounds": rounds,
    }


def measure_push(scratch: Path, rounds: int = 5) -> dict[str, Any]:
    """Time a push of a one-file patch, on the whole release and on 100 of its files."""
    _, places, base = _make_project(scratch / "big")
    target = "setup.py"
    patch = _one_line_patch(places.tree, target)
    small_repo = _small_repository(places.tree, scratch / "small.git", base, target)
    small_base = Repository(small_repo, small_repo).resolve_commit("refs/heads/small")
    assert small_base
    both: dict[str, SeriesPlaces] = {}
    for name, repo, commit in (("full tree", places.tree / ".git", base), ("100 files", small_repo, small_base)):
        root = scratch / name.replace(" ", "-")
        (root / "patches" / RELEASE).mkdir(parents=True)
        (root / "series").mkdir()
        (root / "patches" / RELEASE / "0001-one-line.patch").write_bytes(patch)
        (root / "series" / RELEASE).write_text(f"{RELEASE}/0001-one-line.patch\n", "utf-8")
        both[name] = Checkout(root).find_series(RELEASE)
        create_tree(both[name], repo, commit, commit, {})
    samples: dict[str, list[Sample]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, where in both.items():
            assert where.project
            environment = {**os.environ, "DECOUPLE_PROJECT": str(where.project)}
            push = [*OWN, "-m", "decouple", "push", RELEASE, "--no-overlay"]
            samples[name].append(time_action(functools.partial(_run_command, push, where.tree, environment)))
            _run_command([*OWN, "-m", "decouple", "pop", RELEASE], where.tree, environment)
    start = [
        time_action(functools.partial(_run_command, [*OWN, "-m", "decouple", "--version"], scratch, dict(os.environ)))
    ]
    return {
        "name": "one-patch push: full tree / 100 files",
        "files": len(_run_git(places.tree, "ls-tree", "-r", "--name-only", base).splitlines()),
        **_tabulate_samples(samples, against="100 files", ours="full tree"),
        "aim": 1.2,
        "process_start_s": round(start[0].wall, 3),
        "rounds": rounds,
    }


def _tabulate_samples(samples: dict[str, list[Sample]], *, against: str, ours: str = "ours") -> dict[str, Any]:
    result: dict[str, Any] = {}
    walls, cpus = {}, {}
    for name, taken in samples.items():
        if not taken:
            result[f"{name}_s"] = f"not measured: {name} is not installed"
            continue
        walls[name], cpus[name] = take_median(taken).wall, take_median(taken).cpu
        result[f"{name}_s"] = round(walls[name], 3)
        result[f"{name}_cpu_s"] = round(cpus[name], 3)
        result[f"{name}_best_s"] = round(min(sample.wall for sample in taken), 3)
        result[f"{name}_best_cpu_s"] = round(min(sample.cpu for sample in taken), 3)
    result["ratio"] = round(walls[ours] / walls[against], 3)
    result["cpu_ratio"] = round(cpus[ours] / cpus[against], 3)
    result["best_ratio"] = round(result[f"{ours}_best_s"] / result[f"{against}_best_s"], 3)
    result["best_cpu_ratio"] = round(result[f"{ours}_best_cpu_s"] / result[f"{against}_best_cpu_s"], 3)
    if "quilt" in walls:
        result["ratio_to_quilt"] = round(walls[ours] / walls["quilt"], 3)
    return result


def _make_project(root: Path) -> tuple[Path, SeriesPlaces, str]:
    """Copy the project's series and make a tree of its own, nothing applied."""
    project = find_project()
    for folder in ("series", "patches"):
        shutil.copytree(project / folder, root / folder)
    manifest = load_release(project, RELEASE)
    base = ensure_baseline(find_cache(), manifest, fetch_source(manifest))
    places = Checkout(root).find_series(RELEASE)
    create_tree(places, base.repo, base.commit, base.upstream, {})
    return root, places, base.commit


def _clone_tree(source: Path, target: Path, base: str) -> Path:
    _run_git(source.parent, "clone", "-q", "--shared", "--no-checkout", str(source), str(target))
    _run_git(target, "checkout", "-q", "-f", "--detach", base)
    return target


def _small_repository(source: Path, target: Path, base: str, must: str) -> Path:
    """Make a bare repository whose one commit has 100 files of the release.

    They are spread over it, ``must`` among them.
    """
    _run_git(source.parent, "clone", "-q", "--bare", "--shared", str(source), str(target))
    listed = _run_git(source, "ls-tree", "-r", "--name-only", base).splitlines()
    chosen = {must, *listed[:: len(listed) // (SMALL - 1)][: SMALL - 1]}
    repository = Repository(target, target)
    entries: dict[str, TreeEntry | tuple[int, bytes] | None] = dict(read_entries(repository, base, chosen))
    empty = _run_git(target, "hash-object", "-w", "-t", "tree", "--stdin")
    root = _run_git(target, *_NOBODY, "commit-tree", empty, "-m", "root")
    text = CommitText("bench <bench@localhost>", "0 +0000", "small\n")
    (commit,) = write_chain(repository, root, [NewCommit(text, entries)])
    repository.run("update-ref", "refs/heads/small", commit)
    return target


def _one_line_patch(source: Path, path: str) -> bytes:
    lines = (source / path).read_text("utf-8").splitlines()[:4]
    hunk = "".join(f" {line}\n" for line in lines[:3])
    return (
        "From: Bench <bench@localhost>\nSubject: one line\n\nDecouple-Id: one-line\n---\n"
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,4 @@\n+# one line\n{hunk}"
    ).encode()


def _changed_bytes(source: Path, base: str) -> int:
    names = _run_git(source, "diff", "--name-only", "--diff-filter=d", "--no-renames", "-z", base, "HEAD").split("\0")
    return sum((source / name).lstat().st_size for name in names if name)


def _read_tree(folder: Path) -> str:
    return _run_git(folder, "rev-parse", "HEAD^{tree}")


def _tree_applied(source: Path) -> str:
    """Return the tree that our last push made: HEAD before the pop."""
    return _run_git(source, "rev-parse", "HEAD@{1}^{tree}")


def _run_git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout.strip()


def _run_command(command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise DecoupleError(
            f"{' '.join(command[:4])} failed: {words[-1] if words else done.returncode}",
            next_step="run that command by hand",
        )


def _write_bytes(path: Path, size: int) -> None:
    with path.open("wb") as out:
        out.write(bytes(size))
    path.unlink()


def measure_apply(rounds: int = 5, scratch: Path | None = None) -> list[dict[str, Any]]:
    """Make both measurements in one run.

    ``scratch`` is where the trees are made (the temporary directory by default).
    """
    with tempfile.TemporaryDirectory(prefix="decouple-bench-", dir=scratch) as folder:
        return [measure_series(Path(folder) / "a", rounds), measure_push(Path(folder) / "b", rounds)]


def _format_rows(results: list[dict[str, Any]]) -> str:
    return "".join("".join(f"{key:20} {value}\n" for key, value in result.items()) + "\n" for result in results)


if __name__ == "__main__":
    run_bench(__doc__, measure_apply, _format_rows, rounds=5, scratch=Path)
