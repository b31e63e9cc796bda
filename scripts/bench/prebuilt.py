"""Time the way from an empty cache to a torch_cuda over official kernels.

    python scripts/bench/prebuilt.py --python PYTHON [--release 2.6] [--json FILE]

PYTHON has the official torch of the release, and is of the version that its pinned wheel is for (3.13 for 2.6); its CPU
half stands for the CPU torch that a user has. Downloads 0.9 GB and needs 10 GB of disk, in a folder of its own that is
deleted: caches, checkout, root and build begin empty. Without ``--python`` nothing is measured.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _timing import run_bench, time_action

from decouple.base.interpreter import OWN, run_python
from decouple.base.mounts import remove_tree
from decouple.base.paths import find_project
from decouple.prebuilt.pairing import load_pair

#: How the first line begins that is said when a part is over -> the part.
PARTS = {
    "stage 2: building": "tree, root and official wheel",
    "configure stage 2: done": "configure",
    "stage 2: done": "compile",
    "stage 2: built": "pack",
}
USE = "import torch, torch_cuda; torch.cuda._CUDAC; print(torch_cuda.__file__)"


def time_parts(argv: list[str], folder: Path, environment: Mapping[str, str]) -> dict[str, float]:
    """Run ``argv`` in ``folder``; return the seconds of each of `PARTS` that it said.

    A part that is over too soon to be said counts to the next. Raises CalledProcessError, with what it said printed.
    """
    parts, began, said = dict[str, float](), time.perf_counter(), list[str]()
    process = subprocess.Popen(
        argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        part = next((part for begin, part in PARTS.items() if line.startswith(begin)), None)
        if part and part not in parts:
            parts[part] = round(time.perf_counter() - began - sum(parts.values()), 1)
    if process.wait():
        print("".join(said[-20:]))
        raise subprocess.CalledProcessError(process.returncode, argv)
    return parts


def measure_start(release: str, python: str) -> dict[str, Any] | None:
    """Measure all parts in seconds; return None without a Python."""
    if not python:
        print("skipped: no --python with the official torch")
        return None
    asked = "import sys; print('cp{}{}'.format(*sys.version_info))"
    tag = run_python([python, "-c", asked]).stdout.strip()
    name = load_pair(release).wheel.name
    if f"-{tag}-" not in name:
        raise SystemExit(f"{python}: it is {tag}, and {name} is for another Python")
    scratch = Path(tempfile.mkdtemp(prefix="decouple-bench-", dir=find_project().parent))
    try:
        return _measure_below(scratch, release, python)
    finally:
        remove_tree(scratch)  # a root has mount points


def _measure_below(scratch: Path, release: str, python: str) -> dict[str, Any]:
    checkout, venv = scratch / "checkout", scratch / "venv"
    empty = {"DECOUPLE_CACHE": str(scratch / "cache"), "PIP_CACHE_DIR": str(scratch / "pip")}
    environment = {**os.environ, **empty, "PYTHONUNBUFFERED": "1"}
    decouple = [*OWN, "-m", "decouple"]
    subprocess.run(["git", "clone", "-q", str(find_project()), str(checkout)], check=True)
    half = [*decouple, "repack", "core-half", release, str(venv), "--python", python]
    subprocess.run(half, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    parts: dict[str, float] = {}
    words = ["build", release, "--stage", "2", "--kernels", "official", "--env", "portable"]
    spent = time_action(lambda: parts.update(time_parts([*decouple, *words], checkout, environment)))
    [wheel] = (checkout / "dist" / release).glob("*.whl")
    inside = str(venv / "bin" / "python")
    install = [*OWN, "-m", "pip", "--python", inside, "install", "-q", "--no-deps", str(wheel)]
    parts["pip install"] = round(time_action(lambda: subprocess.run(install, env=environment, check=True)).wall, 1)
    parts["import"] = round(time_action(lambda: subprocess.run([inside, "-c", USE], check=True)).wall, 1)
    return {
        "seconds": parts,
        "all": round(sum(parts.values()), 1),
        "processor seconds of the build": round(spent.cpu, 1),
        "cores": os.cpu_count(),
        "MiB of the wheel": wheel.stat().st_size >> 20,
    }


if __name__ == "__main__":
    run_bench(__doc__, measure_start, release="2.6", python="")
