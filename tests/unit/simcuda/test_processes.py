"""What a test's processes would have launched stands in the test's ledger, as each rank of a distributed test does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simcuda.ledger import Totals

HERE = Path(__file__).parent
SCRIPTS = HERE.parents[2] / "scripts"
TESTS = """
import multiprocessing, os, sys
from device import Runtime

def launch(n):
    cuda = Runtime()
    x, y = cuda.malloc(64), cuda.malloc(64)
    cuda.axpy(x, y, n)

def run(*numbers):
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=launch, args=(n,)) for n in numbers]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()

def test_two(): run(1, 2)
def test_other_order(): run(2, 1)
def test_another(): run(1, 3)
def test_none(): run()
def test_fails():
    run(1, 2)
    raise ValueError("no")
"""


@pytest.fixture(scope="module")
def rows(built: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the plug-in wrote of TESTS, by the test's name."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "test_ranks.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(folder), "-p", "simcuda.plugin", "--simcuda-entries"]
    command += ["--simcuda-results", str(folder / "results.jsonl"), str(folder / "test_ranks.py")]
    variables = {
        "LD_LIBRARY_PATH": str(built),
        "LD_PRELOAD": str(built / "libcudart.so.12"),
        "SIMCUDA_MEMORY": str(64 << 20),
        "PYTHONPATH": f"{SCRIPTS / 'simcuda' / 'inject'}:{SCRIPTS}:{HERE}",
    }
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert sorted(path.name for path in folder.glob("results.jsonl*")) == ["results.jsonl"]
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return {line["id"].rpartition("::")[2]: line for line in lines if line["outcome"] != "started"}


def test_a_test_has_what_its_processes_launched(rows: dict[str, dict[str, Any]]) -> None:
    ledger = rows["test_two"]["ledger"]
    assert (ledger["processes"], ledger["launches"], ledger["allocations"]) == (2, 2, 4)
    launched = [entry[1] for entries in rows["test_two"]["processes"] for entry in entries if entry[0] == "launch"]
    assert launched == ["axpy", "axpy"]
    assert rows["test_none"]["ledger"]["processes"] == 0


def test_which_process_was_first_is_not_told_and_what_it_launched_is(rows: dict[str, dict[str, Any]]) -> None:
    digests = [rows[name]["ledger"]["exact"] for name in ("test_two", "test_other_order", "test_another")]
    assert digests[0] == digests[1] != digests[2]


def test_entries_stand_in_the_order_in_which_the_processes_were_started(rows: dict[str, dict[str, Any]]) -> None:
    """So those of one rank are laid beside those of the same rank of another run."""
    for name, numbers in {"test_two": [1, 2], "test_other_order": [2, 1]}.items():
        launches = [entry for entries in rows[name]["processes"] for entry in entries if entry[0] == "launch"]
        assert [int(entry[-1].split(" ")[2][:2], 16) for entry in launches] == numbers


def test_a_failed_test_of_processes_has_no_ledger(rows: dict[str, dict[str, Any]]) -> None:
    """Upstream's harness ends the other ranks when one fails: how far they were is chance."""
    assert (rows["test_fails"]["outcome"], rows["test_fails"]["ledger"]) == ("failed", None)


def test_digests_of_processes_add_up_whatever_their_size() -> None:
    large = Totals("simulated", "", "f" * 16, "1", "0", 1, 0, 0, 0, 0, 0, 2)
    both = large.add_process(Totals("simulated", "", "2", "1", "0", 4, 0, 0, 0, 0, 0, 1, processes=1))
    assert (both.exact, both.loose) == ("1".zfill(16), "2".zfill(16))
    assert (both.launches, both.events, both.processes) == (5, 3, 2)
