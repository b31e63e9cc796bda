"""The pytest plug-in, without a device: what one test leaves to those behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from simcuda import known, plugin

SCRIPTS = Path(known.__file__).parents[1]
LEAKY = """
import unittest, weakref

class Tensor: pass
left = []

class TestMemory(unittest.TestCase):
    def test_a_fails(self):
        held = Tensor()
        left.append(weakref.ref(held))
        try:
            self.inner()
        except RuntimeError:
            raise OSError("no network")

    def inner(self):
        held = Tensor()
        left.append(weakref.ref(held))
        raise RuntimeError("refused")

    def test_b_looks_through_memory(self):
        self.assertEqual([one() for one in left], [None, None])
"""


def outcomes(folder: Path, tests: str) -> dict[str, tuple[str, str | None]]:
    """Name -> outcome and reason of the ``tests``, a file's text."""
    file, out = folder / "test_program.py", folder / "results.jsonl"
    file.write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(folder), "-p", "simcuda.plugin", "--simcuda-results", str(out), str(file)]
    subprocess.run(command, env={"PYTHONPATH": str(SCRIPTS), "PATH": ""}, capture_output=True, timeout=60)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["id"].rpartition("::")[2]: (row["outcome"], row["why"]) for row in rows if row["outcome"] != "started"}


def test_a_failed_test_holds_nothing(tmp_path: Path) -> None:
    found = outcomes(tmp_path, LEAKY)
    assert found["test_a_fails"] == ("failed", "OSError: no network")
    assert found["test_b_looks_through_memory"] == ("passed", None)


@pytest.mark.parametrize("error", ["self.fail('no')", "raise SystemExit(3)"])
def test_a_test_that_fails_is_reported_in_its_own_words(tmp_path: Path, error: str) -> None:
    found = outcomes(tmp_path, f"import unittest\nclass TestOne(unittest.TestCase):\n    def test_it(self): {error}\n")
    assert found["test_it"][0] == "failed"


@pytest.mark.parametrize("sticky", [False, True])
def test_what_the_tests_before_left_in_a_cache_is_given_back_before_the_next(
    monkeypatch: pytest.MonkeyPatch, sticky: bool
) -> None:
    """Else it is freed in the ledger of whichever test empties the cache, and which that is was chance. Some segment
    is there as before: upstream's test_cuda_graph_allocator_propagates_stream failed on a device without any."""
    asked = []

    def empty() -> None:
        asked.append("device")
        if sticky:
            raise RuntimeError("CUDA error: device-side assert triggered")

    cuda = SimpleNamespace(is_initialized=lambda: True, empty_cache=empty)
    core = SimpleNamespace(_host_emptyCache=lambda: asked.append("host"))
    fill = lambda size, *, device: asked.append(f"{size} on {device}")  # noqa: E731
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=core, empty=fill))
    plugin.give_back()
    assert asked == (["device"] if sticky else ["device", "host", "1 on cuda"])
    asked.clear()
    cuda.is_initialized = lambda: False
    plugin.give_back()
    assert not asked
