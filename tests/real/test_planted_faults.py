"""Faults planted under a real torch: the comparison of two builds finds each by the name of the test that meets it.

Those of machine code are in ``test_kernels.py`` (a constant, a kernel dropped), the loader's in
``unit/torch_cuda/test_loader_faults.py``, a missing binding's in ``unit/simcuda/test_ledger.py``.
``test_simulated_hip.py`` has those of ``torch_hip``.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from decouple.suites import compare
from decouple.suites.store import SuiteResult
from tests.support.cuda_torch import simulated_variables

PROGRAMS = Path(__file__).parent / "simulated"

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.tools("c++"),
    pytest.mark.timeout(1800),  # whose first it is installs PyTorch and compiles the stand-ins
]

#: Fault -> the tests that must differ, and no other.
FOUND = {
    "grid": {"softmax"},
    "stream": {"cumulative_sum_on_a_stream"},
    "allocator": {"large_tensor"},
    "binding": {"cumulative_sum_on_a_stream", "addition_on_a_stream", "product_on_a_stream"},
    "guard": {"addition_on_the_second_device"},
    "handle": {"product_on_a_stream"},
    "mode": {"product_in_reduced_precision"},
    "wait": {"two_streams"},
    "again": set(),
}


def run_planted(folder: Path, python: Path, program: Path, *options: str) -> str:
    """What ``program`` printed with `planted.cpp` between torch and the simulated runtime."""
    library = folder / "planted.so"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", library, PROGRAMS / "planted.cpp", "-ldl"], check=True)
    line = f'LD_PRELOAD={library}:$LD_PRELOAD exec {python} "{program}"'
    command = [str(python), "-m", "simcuda", "run", *options, "--python", str(python), "sh", "-c", line]
    done = subprocess.run(command, env=simulated_variables(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_each_fault_is_found_by_the_name_of_its_test(tmp_path: Path, cuda_python: Path) -> None:
    printed = run_planted(tmp_path, cuda_python, PROGRAMS / "planted.py", "--no-shadows", "--devices", "2")
    builds: dict[str, dict[str, SuiteResult]] = {}
    for line in printed.splitlines():
        row = json.loads(line)
        name = row["id"].rpartition("::")[2]
        builds.setdefault(row["fault"], {})[name] = SuiteResult(row["id"], row["outcome"], ledger=row["ledger"])
    found = {
        fault: {one.test.rpartition("::")[2] for one in compare.compare_results(builds[fault], builds[""]).differences}
        for fault in FOUND
    }
    assert found == FOUND


FAILING = """
import ctypes, json
import torch
from simcuda.ledger import Ledger
x, ledger, planted = torch.tensor([3.0, 0, 1], device="cuda"), Ledger.find_loaded(), ctypes.CDLL(None).planted
for fault in b"", b"copy":
    ledger.reset(keep_entries=True)
    planted(fault)
    found = torch.nonzero(x)
    planted(b"")
    print(json.dumps([len(found), ["call", "aten::nonzero", ["failed"]] in map(json.loads, ledger.read_entries())]))
"""


def test_an_operator_that_fails_midway_has_a_value_and_is_named_in_the_ledger(
    tmp_path: Path, cuda_python: Path
) -> None:
    """The size of its result hangs on values, so the CPU's result stands; the ledger was only shorter."""
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    assert run_planted(tmp_path, cuda_python, program).splitlines() == ["[2, false]", "[2, true]"]
