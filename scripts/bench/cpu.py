"""Time a torch on the CPU against another, in one run on one core.

Measured are operators, a small network, import time and memory.

    python scripts/bench/cpu.py --ours PYTHON --theirs PYTHON [--rounds 5] [--json FILE]

Each is a Python with a torch in it, e.g. of a virtual environment with the wheels of dist/, and of one with PyPI's
official wheel. Both run in turn, case by case, in several processes each; of each case the best of all rounds counts.
A ratio above 1: ours is faster. Aim: a geometric mean of 0.98, none under 0.9.

For who publishes portable wheels: docs/build.md has the figure under *What was proven*.
"""

from __future__ import annotations

import math
import subprocess
from pathlib import Path
from typing import Any

from _timing import run_bench

from decouple.base.errors import DecoupleError
from decouple.base.interpreter import run_python

_CASES = Path(__file__).with_name("_cpu_cases.py")
_PAIRS = 4
"""Of processes. Whether large results lie in fresh pages or in warm ones is settled by malloc early in each, and made
one and the same softmax seven times slower in one process than in the next."""
_IMPORT = (
    "import time, resource; began = time.perf_counter(); import torch; took = time.perf_counter() - began; "
    "print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, torch.__version__)"
)


class _Worker:
    """A Python that answers, case by case, how long one call takes."""

    def __init__(self, python: str, script: Path) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([python, str(script)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        first = self._line()
        if not first:
            said = self._process.communicate()[1].strip().splitlines() or ["it said nothing"]
            raise DecoupleError(f"{python}: no torch to measure: {said[-1]}", next_step="name a Python that has one")
        self.cases = first.split("\t")

    def ask(self, case: str) -> float | str:
        """Return the seconds of one call, or why there is none."""
        assert self._process.stdin
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        said = self._line()
        try:
            return float(said)
        except ValueError:
            return said or "it ended"

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().rstrip("\n")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def measure_cases(
    ours: str, theirs: str, rounds: int, *, script: Path = _CASES, name: str = "a torch on the CPU"
) -> dict[str, Any]:
    """Measure the microseconds of each case of ``script`` on both, and the ratios.

    Raises DecoupleError where a Python has no torch.
    """
    if not ours or not theirs:
        return {"name": name, "not measured": "name two Pythons with --ours and --theirs"}
    imports = {side: _time_import(python, rounds) for side, python in (("ours", ours), ("theirs", theirs))}
    best: dict[str, dict[str, Any]] = {}
    for _ in range(_PAIRS):
        workers = {"ours": _Worker(ours, script), "theirs": _Worker(theirs, script)}
        try:
            for case in workers["ours"].cases:
                _ask_workers(workers, case, rounds, best.setdefault(case, {}))
        finally:
            for worker in workers.values():
                worker.end()
    both = {case: one for case, one in best.items() if all(isinstance(value, float) for value in one.values())}
    ratios = {case: one["theirs"] / one["ours"] for case, one in both.items()}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios)) if ratios else 0.0
    return {
        "name": name,
        "rounds": rounds,
        "processes": _PAIRS,
        "versions": {side: version for side, (_, _, version) in imports.items()},
        "microseconds": {
            case: {side: round(value * 1e6, 1) for side, value in one.items()} for case, one in both.items()
        },
        "ratios": {case: round(value, 2) for case, value in ratios.items()},
        "geometric mean": round(mean, 3),
        "worst": min(ratios, key=lambda case: ratios[case]) if ratios else "",
        "not on both": {case: one for case, one in best.items() if case not in both},
        "import": {
            side: {"seconds": round(took, 2), "MiB resident": round(size)} for side, (took, size, _) in imports.items()
        },
    }


def _ask_workers(workers: dict[str, _Worker], case: str, rounds: int, found: dict[str, Any]) -> None:
    """Put into ``found`` what is faster than what is there, or why there is no figure."""
    for _ in range(rounds):
        for side, worker in workers.items():
            seen = worker.ask(case)
            if isinstance(seen, str):
                found[side] = seen
            elif not isinstance(found.get(side), str):
                found[side] = min(seen, found.get(side, math.inf))


def _time_import(python: str, rounds: int) -> tuple[float, float, str]:
    """Seconds and MiB of the cheapest import, and the version."""
    found = []
    for _ in range(rounds):
        done = run_python([python, "-c", _IMPORT])
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise DecoupleError(f"{python}: no torch to measure: {said[-1]}", next_step="name a Python that has one")
        took, size, version = done.stdout.split()
        found.append((float(took), float(size), version))
    return min(found)


def format_cases(found: dict[str, Any]) -> str:
    """Return a line per case."""
    if "not measured" in found:
        return f"{found['name']}: not measured: {found['not measured']}\n"
    lines = [f"{found['name']}: {found['versions']['ours']} against {found['versions']['theirs']}, one core"]
    for case, ratio in found["ratios"].items():
        both = found["microseconds"][case]
        lines.append(f"  {ratio:5.2f}  {case} ({both['ours']:.4g} us against {both['theirs']:.4g})")
    for case, one in found["not on both"].items():
        lines.append(f"     -  {case}: " + "; ".join(f"{side}: {said}" for side, said in one.items()))
    lines.append(f"  {found['geometric mean']:5.2f}  geometric mean")
    said = [f"{side} {one['seconds']} s, {one['MiB resident']} MiB" for side, one in found["import"].items()]
    return "\n".join([*lines, f"         import torch: {', '.join(said)}"]) + "\n"


if __name__ == "__main__":
    run_bench(__doc__, measure_cases, format_cases, ours="", theirs="", rounds=5)
