"""Time a torch on a GPU against another, in one run.

Measured is what the host takes to launch, copy, record and replay.

    python scripts/bench/gpu.py --ours PYTHON --theirs PYTHON [--rounds 5] [--json FILE]

Each is a Python with a torch in it that sees the GPU. Both run in turn, as `cpu.py` has it. A ratio above 1: ours is
faster. The kernels are the same, so that what differs is the way to them: bindings, dispatch, allocator. One large
product is waited for. Without a GPU `python -m simcuda run --no-shadows --python PYTHON` before it leaves what the host
takes.

For who doubts that a torch in two parts is as fast: docs/proofs.md has the figures of an H100.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _timing import run_bench
from cpu import format_cases, measure_cases

_CASES = Path(__file__).with_name("_gpu_cases.py")


def measure_gpu(ours: str, theirs: str, rounds: int) -> dict[str, Any]:
    """Measure the microseconds of each case on both, and the ratios.

    Raises DecoupleError as `measure_cases`.
    """
    return measure_cases(ours, theirs, rounds, script=_CASES, name="a torch on a GPU")


if __name__ == "__main__":
    run_bench(__doc__, measure_gpu, format_cases, ours="", theirs="", rounds=5)
