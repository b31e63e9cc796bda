"""The pytest plug-in, without a device: what one test leaves to those behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from simcuda import known_failures, plugin

SCRIPTS = Path(known_failures.__file__).parents[1]
HARNESS = """
class ops:
    def __init__(self, op_list): self.op_list = op_list
    def _parametrize_test(self, test, cls, device):
        for one in self.op_list:
            yield f"{test.__name__}_{one.formatted_name}_cuda"
"""
MANY = """
from torch.testing._internal.common_device_type import ops
from types import SimpleNamespace
MADE = []

def made(test):
    every = [SimpleNamespace(formatted_name=name) for name in ("add", "add_out", "sub", "mul")]
    for name in ops(every)._parametrize_test(test, None, None):
        MADE.append(name)
        globals()[name] = lambda: test(MADE)

@made
def test_it(found): assert found == ["test_it_add_cuda", "test_it_sub_cuda", "test_other_add_cuda"]
@made
def test_other(found): pass
def test_cuda_plain(): pass
"""
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


def outcomes(folder: Path, tests: str, *words: str) -> dict[str, tuple[str, str | None]]:
    """Name -> outcome and reason of the ``tests``, a file's text."""
    file, out = folder / "test_program.py", folder / "results.jsonl"
    file.write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider"]
    command += ["--rootdir", str(folder), "-p", "simcuda.plugin", "--simcuda-results", str(out), *words, str(file)]
    subprocess.run(command, env={"PYTHONPATH": f"{SCRIPTS}:{folder}", "PATH": ""}, capture_output=True, timeout=300)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {row["id"].rpartition("::")[2]: (row["outcome"], row["why"]) for row in rows if row["outcome"] != "started"}


def test_what_a_test_failed_with_is_also_what_led_to_it() -> None:
    try:
        try:
            raise RuntimeError("the simulated device compiles nothing")
        except RuntimeError as error:
            raise OSError("Caused by sample input at index 0") from error
    except OSError as error:
        assert list(plugin.list_causes(error)) == ["the simulated device compiles nothing"]


def test_a_failed_test_holds_nothing(tmp_path: Path) -> None:
    found = outcomes(tmp_path, LEAKY)
    assert found["test_a_fails"] == ("failed", "OSError: no network")
    assert found["test_b_looks_through_memory"] == ("passed", None)


PARTS = """
import unittest

class TestParts(unittest.TestCase):
    def test_a_part_fails(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)
    def test_a_part_fails_and_the_rest_is_skipped(self):
        with self.subTest("first"):
            self.fail("two is not three")
        self.skipTest("no such device")
    def test_a_part_is_skipped(self):
        with self.subTest("first"):
            self.skipTest("no such device")
    def test_fails_and_cannot_tidy(self):
        self.addCleanup(self.skipTest, "nothing to tidy")
        self.fail("two is not three")
"""


def test_a_test_of_which_a_part_failed_has_failed(tmp_path: Path) -> None:
    """Behind the report of a failed subTest pytest 9 sends one of the whole test, which says "passed"."""
    found = outcomes(tmp_path, PARTS)
    assert found["test_a_part_fails"] == ("failed", "AssertionError: 1 == 1")
    assert found["test_a_part_fails_and_the_rest_is_skipped"] == ("failed", "AssertionError: two is not three")
    assert found["test_a_part_is_skipped"][0] != "failed"
    assert found["test_fails_and_cannot_tidy"] == ("failed", "AssertionError: two is not three")


EXPECTED = """
import pytest
@pytest.mark.xfail(reason="no such kernel")
def test_fails(): assert 1 == 2
@pytest.mark.xfail(reason="no such kernel")
def test_passes(): pass
@pytest.mark.xfail
def test_passes_without_a_reason(): pass
@pytest.mark.xfail(strict=True)
def test_passes_and_must_not(): pass
"""


def test_what_passes_though_it_is_marked_to_fail_is_not_counted_with_what_fails(tmp_path: Path) -> None:
    """One build failed, the other did not, and both were "xfailed"."""
    found = outcomes(tmp_path, EXPECTED)
    assert found["test_fails"] == ("xfailed", "assert 1 == 2")
    assert found["test_passes"] == ("passed", "passed, though marked to fail: no such kernel")
    assert found["test_passes_without_a_reason"] == ("passed", "passed, though marked to fail")
    assert found["test_passes_and_must_not"][0] == "failed"


@pytest.mark.parametrize("error", ["self.fail('no')", "raise SystemExit(3)"])
def test_a_test_that_fails_is_reported_in_its_own_words(tmp_path: Path, error: str) -> None:
    found = outcomes(tmp_path, f"import unittest\nclass TestOne(unittest.TestCase):\n    def test_it(self): {error}\n")
    assert found["test_it"][0] == "failed"


def test_of_upstream_s_operators_only_those_are_made_that_were_asked_for(tmp_path: Path) -> None:
    """Making all of test_ops.py takes two minutes."""
    package = tmp_path / "torch" / "testing" / "_internal"
    package.mkdir(parents=True)
    (package / "common_device_type.py").write_text(HARNESS)
    (tmp_path / "asked.txt").write_text(
        "test_program.py::test_it_add_cuda\ntest_program.py::test_it_sub_cuda\ntest_program.py::test_cuda_plain\n"
    )
    found = outcomes(tmp_path, MANY, "--simcuda-only", str(tmp_path / "asked.txt"))
    assert found == dict.fromkeys(("test_it_add_cuda", "test_it_sub_cuda", "test_cuda_plain"), ("passed", None))


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
    core = SimpleNamespace(_host_emptyCache=lambda: asked.append("host"), _cuda_isHistoryEnabled=lambda: False)
    fill = lambda size, *, device: asked.append(f"{size} on {device}")  # noqa: E731
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, _C=core, empty=fill))
    plugin.empty_caches()
    assert asked == (["device"] if sticky else ["device", "host", "1 on cuda"])
    asked.clear()
    cuda.is_initialized = lambda: False
    plugin.empty_caches()
    assert not asked


RANKS = """Process 0 exited with error code 10 and exception:
Traceback (most recent call last):
  File "common_distributed.py", line 726, in run_test
    getattr(self, test_name)()
  File "test_c10d_nccl.py", line 12, in test_it
    dist.all_reduce(t)
    ~~~~~~~~~~~~~~~^^^
ValueError: Default process group has not been initialized
More of it.

Process 1 exited with error code 10 and exception:
Traceback (most recent call last):
  File "test_c10d_nccl.py", line 13, in test_it
OSError: other
"""


def test_a_failure_of_ranks_begins_with_what_the_first_of_them_raised(tmp_path: Path) -> None:
    found = outcomes(tmp_path, f"RANKS = {RANKS!r}\ndef test_ranks(): raise RuntimeError(RANKS)\n")
    assert (found["test_ranks"][1] or "").splitlines()[:2] == [
        "ValueError: Default process group has not been initialized",
        "RuntimeError: Process 0 exited with error code 10 and exception:",
    ]


RANKED = """
import functools
def skip_if_lt_x_gpu(least):
    def decorate(test):
        @functools.wraps(test)
        def run(*words): return test(*words)
        return run
    return decorate
"""
TWO_DEVICES = """
from types import SimpleNamespace
cuda = SimpleNamespace(device_count=lambda: 2, is_initialized=lambda: False)
"""
NEEDY = """
import unittest, torch
from torch.testing._internal.common_distributed import skip_if_lt_x_gpu

class TestRanks(unittest.TestCase):
    started = 0
    def setUp(self): TestRanks.started += 1
    @skip_if_lt_x_gpu(2)
    def test_a_two(self): self.assertEqual(self.started, 1)
    @skip_if_lt_x_gpu(2)
    @skip_if_lt_x_gpu(4)
    def test_b_four(self): pass
    def test_c_any(self): self.assertEqual(self.started, 2)
"""


def test_ranks_are_not_started_to_say_that_there_are_too_few_devices(tmp_path: Path) -> None:
    """Four processes imported torch for each of some fifty tests of test_c10d_nccl.py."""
    package = tmp_path / "torch" / "testing" / "_internal"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text(TWO_DEVICES)
    (package / "common_distributed.py").write_text(RANKED)
    names = ("test_a_two", "test_b_four", "test_c_any")
    (tmp_path / "asked.txt").write_text("".join(f"test_program.py::TestRanks::{name}\n" for name in names))
    found = outcomes(tmp_path, NEEDY, "--simcuda-only", str(tmp_path / "asked.txt"))
    assert [found[name] for name in names] == [
        ("passed", None),
        ("skipped", "Skipped: Need at least 4 CUDA devices"),
        ("passed", None),
    ]


RANK_PROCESSES = """
import multiprocessing, unittest

class MultiProcessTestCase(unittest.TestCase):
    def _spawn_processes(self):
        self._start_processes(multiprocessing.get_context("spawn").Process)
    def _start_processes(self, proc):
        self.processes = [proc(target=self.__class__._run, name=f"rank {rank}", args=(rank,)) for rank in range(2)]
        for process in self.processes: process.start()
        for process in self.processes: process.join()
"""
IMPORTS = """
import os
from types import SimpleNamespace
cuda = SimpleNamespace(is_initialized=lambda: False)
imported = os.getpid()
"""
FORKED = """
import os, sys, torch
from pathlib import Path
from torch.testing._internal.common_distributed import MultiProcessTestCase

class TestRanks(MultiProcessTestCase):
    @classmethod
    def _run(cls, rank):
        Path(f"{os.environ['SET_BY_TEST']}.{rank}").write_text(str(torch.imported))
        if rank: sys.exit(3)
    def run_ranks(self, name):
        os.environ["SET_BY_TEST"] = name
        self._spawn_processes()
        self.assertEqual([process.exitcode for process in self.processes], [0, 3])
        return {Path(f"{name}.{rank}").read_text() for rank in range(2)}
    def test_ranks(self):
        [server] = self.run_ranks(f"{__file__}.1") | self.run_ranks(f"{__file__}.2")
        self.assertNotEqual(int(server), os.getpid())
"""


def test_ranks_are_forked_where_torch_is_imported_already(tmp_path: Path) -> None:
    """One process imports torch for all ranks; each has the variables of the test and its own exit status."""
    package = tmp_path / "torch" / "testing" / "_internal"
    package.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text(IMPORTS)
    (package / "common_distributed.py").write_text(RANK_PROCESSES)
    (tmp_path / "asked.txt").write_text("test_program.py::TestRanks::test_ranks\n")
    found = outcomes(tmp_path, FORKED, "--simcuda-only", str(tmp_path / "asked.txt"))
    assert found["test_ranks"] == ("passed", None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--simcuda-only", "tests.txt"], "need --simcuda-results"),  # every test was run
        (["--simcuda-entries"], "need --simcuda-results"),
        (["--simcuda-results", "results.jsonl", "--simcuda-only", "tests.txt"], "--simcuda-only tests.txt: "),
    ],
)
def test_an_option_of_the_plug_in_that_cannot_be_heeded_ends_pytest(
    tmp_path: Path, words: list[str], told: str
) -> None:
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "-p", "simcuda.plugin", *words]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(SCRIPTS)}, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert told in done.stderr and "Traceback" not in done.stderr


COLLECTING = """
import gc
def test_it(): assert gc.isenabled() is False
"""


def test_python_collects_no_garbage_by_itself_while_a_test_is_recorded(tmp_path: Path, built: Path) -> None:
    """When it would hangs on its version and on what was imported, and with it when device memory is freed."""
    (tmp_path / "test_one.py").write_text(COLLECTING)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "--rootdir", str(tmp_path)]
    command += ["-p", "no:cacheprovider", "-p", "simcuda.plugin", "--simcuda-results", str(tmp_path / "out.jsonl")]
    device = {"LD_LIBRARY_PATH": str(built), "LD_PRELOAD": str(built / "libcudart.so.12")}
    done = subprocess.run(
        [*command, str(tmp_path)], env={**os.environ, **device, "PYTHONPATH": str(SCRIPTS)}, capture_output=True
    )
    assert done.returncode == 0, done.stdout
