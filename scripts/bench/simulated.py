"""What the simulated CUDA device costs: the start of a program, and each operator, against the same on the CPU.

    python scripts/bench/simulated.py --torch PYTHON [--rounds 5] [--json FILE]

PYTHON has a CUDA build of torch. The least of all rounds counts, start by start. An operator is called on the CPU
and on the device in one process, first with values alone and then with a ledger of what would be launched. The
stand-ins and shadows are made before anything is measured. Aims: a first result at most 3 s after a plain import's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _timing import run, timed

from decouple.base.interpreter import OWN, resolve_python_path

SCRIPTS = Path(__file__).parents[1]

PLAIN = "import torch; print((torch.ones(2) + 1).tolist())"
FIRST = "import torch; print((torch.ones(2, device='cuda') + 1).tolist())"
OPERATORS = """
import json, time, torch

def seconds(device, size, calls, operator):
    one = torch.rand(size, size, device=device)
    for _ in range(3):
        operator(one)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(calls):
            operator(one)
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - began) / calls)
    return best

cases = {
    "add, 4 x 4": (4, 2000, lambda one: one + one),
    "softmax, 64 x 64": (64, 1000, lambda one: one.softmax(1)),
    "matrix product, 256 x 256": (256, 100, lambda one: one @ one),
}
print(json.dumps({name: [seconds(device, *case) for device in ("cpu", "cuda")] for name, case in cases.items()}))
"""


def measure(torch: Path, rounds: int) -> dict[str, Any]:
    """Seconds of the two starts, and for each operator microseconds on the CPU and what the device adds to them."""
    simulated = [*OWN, "-m", "simcuda", "run", "--python", str(torch)]
    ask(simulated, torch, FIRST)  # makes what is not there
    plain = min(timed(lambda: ask([], torch, PLAIN)).wall for _ in range(rounds))
    first = min(timed(lambda: ask(simulated, torch, FIRST)).wall for _ in range(rounds))
    with tempfile.TemporaryDirectory() as folder:
        values = json.loads(ask(simulated, torch, OPERATORS))
        recorded = json.loads(ask([*simulated, "--ledger", f"{folder}/ledger"], torch, OPERATORS))
    operators = {
        name: {
            "on the CPU, microseconds": round(cpu * 1e6, 1),
            "on the device, times the CPU's": round(cuda / cpu, 2),
            "with a ledger, times the CPU's": round(recorded[name][1] / recorded[name][0], 2),
        }
        for name, (cpu, cuda) in values.items()
    }
    return {
        "seconds from start to a result, plain import": round(plain, 2),
        "seconds from start to a result, simulated": round(first, 2),
        "seconds more": round(first - plain, 2),
        "operators": operators,
    }


def ask(launcher: list[str], torch: Path, code: str) -> str:
    """Return the last line that ``code`` prints under that torch.

    Raises CalledProcessError after showing why.
    """
    variables = {**os.environ, "PYTHONPATH": str(SCRIPTS)} if launcher else dict(os.environ)
    command = [*launcher, str(torch.absolute()), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=resolve_python_path(variables), cwd="/")
    if done.returncode:
        sys.stderr.write(done.stderr[-2000:])
    done.check_returncode()
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    if "--torch" in sys.argv:
        run(__doc__, measure, torch=Path, rounds=5)
    else:
        print("simulated: name a Python with a CUDA build of torch: --torch PYTHON; nothing measured")
