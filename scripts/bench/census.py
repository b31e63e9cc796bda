"""Time census and relocation plan against one ``git grep -c cuda``.

Both read the same tree. The census also runs on half of it.

    python scripts/bench/census.py [--rounds 3] [--release 2.6] [--tree FOLDER] [--json FILE]

All read the tree from the page cache (one warm-up run each). The census is all of it: relocation plan, the include
closure of stage 1, every scanner in two processes, ids and verdicts. Wall clock and CPU time are both shown: on a busy
machine only the second means much. The half tree is every other file, so its mix is the same; half of the includes lead
nowhere there, so the plan is compared by the files that its include closure reaches.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import _timing

from decouple.base.paths import find_project
from decouple.census import python, taxonomy
from decouple.census.context import make_context
from decouple.census.scan import list_tree_files, scan_tree
from decouple.inventory.rules import RuleFile, load_rules
from decouple.relocate.plan import list_unclassified, make_plan
from decouple.syntax.preprocessor import CPP_SUFFIXES
from decouple.upstream.fetch import fetch_source
from decouple.upstream.manifests import load_release


def time_work(work: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return median wall and CPU seconds (with children) of ``work`` after a warm-up."""
    work()
    taken = _timing.take_median([_timing.time_action(work, own=True) for _ in range(rounds)])
    return {"wall_s": round(taken.wall, 3), "cpu_s": round(taken.cpu, 3)}


@contextmanager
def half_tree(tree: Path, rules: RuleFile, files: list[str]) -> Iterator[Path]:
    """Make a tree of every other of ``files`` (hard links) and what the rules name.

    It lacks what only the other half explains.
    """
    named = {name for cut in rules.cuts for name in (cut.header, *cut.included_by)}
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        half = Path(folder)
        for name in sorted({*files[::2], *named}):
            (half / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(tree / name, half / name)
        for name in list_unclassified(half, rules):
            (half / name).unlink()
        yield half


def measure_census(rounds: int, release: str, tree: Path | None) -> dict[str, Any]:
    """Measure the seconds of each side and the ratios aimed at.

    Raises DecoupleError, CalledProcessError.
    """
    tree = tree or fetch_source(load_release(find_project(), release)).path
    rules = load_rules()
    words = taxonomy.load_taxonomy(undefined=rules.stage1.undefined)
    files = list_tree_files(tree)
    half = files[::2]
    moves = make_plan(tree, rules).mapping
    context = make_context(tree, rules, moves)

    def run_grep() -> None:
        command = ["git", "grep", "--no-index", "-c", "cuda"]
        subprocess.run(command, cwd=tree, stdout=subprocess.DEVNULL, check=True)

    def scan_whole() -> None:
        plan = make_plan(tree, rules)
        scan_tree(make_context(tree, rules, plan.mapping, plan.stage1), words)

    result: dict[str, Any] = {
        "files": len(files),
        "git grep -c cuda": time_work(run_grep, rounds),
        "relocation plan": time_work(lambda: make_plan(tree, rules), rounds),
        "census": time_work(scan_whole, rounds),
        "scan, whole tree": time_work(lambda: scan_tree(context, words, files=files), rounds),
        "scan, half the tree": time_work(lambda: scan_tree(context, words, files=half), rounds),
    }
    for kind, suffixes in (("C++", CPP_SUFFIXES), ("Python", python.SUFFIXES)):
        some = [name for name in files if name.endswith(suffixes)]
        result[f"scan, {kind} files"] = time_work(partial(scan_tree, context, words, files=some), rounds)
    result["share of the census's cpu"] = {
        part: round(result[part]["cpu_s"] / result["census"]["cpu_s"], 2)
        for part in ("relocation plan", "scan, C++ files", "scan, Python files")
    }
    with half_tree(tree, rules, files) as folder:
        result["relocation plan, half the tree"] = time_work(lambda: make_plan(folder, rules), rounds)
        reached = [len(make_plan(place, rules).stage1) for place in (tree, folder)]
    cost = [result[f"relocation plan{part}"]["cpu_s"] for part in ("", ", half the tree")]
    result["relocation plan, whole over half"] = {
        "files reached": round(reached[0] / reached[1], 2),
        "cpu": round(cost[0] / cost[1], 2),
    }
    result["census over git grep (cpu)"] = round(result["census"]["cpu_s"] / result["git grep -c cuda"]["cpu_s"], 1)
    result["census over git grep (wall)"] = round(result["census"]["wall_s"] / result["git grep -c cuda"]["wall_s"], 1)
    result["scan, whole over half (cpu)"] = round(
        result["scan, whole tree"]["cpu_s"] / result["scan, half the tree"]["cpu_s"], 2
    )
    return result


if __name__ == "__main__":
    _timing.run_bench(__doc__, measure_census, rounds=3, release="2.6", tree=Path)
