"""Upstream's suites as data: what is known to fail is told, what is not fails, and an entry that is over is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import backend_env
import pytest

THREADS = """
import threading, torch, torch.distributed as dist
from torch.testing._internal.distributed import multi_threaded_pg

def exchange(rank, store, found):
    dist.init_process_group("threaded", rank=rank, world_size=2, store=store)
    with torch.cuda.stream(torch.cuda.Stream()):
        mine, busy = torch.full((4,), rank + 1.0, device="cuda"), torch.ones(500, 500, device="cuda")
        for _ in range(20 - 20 * rank):
            busy = busy @ busy
        both = torch.zeros(8, device="cuda")
        dist.all_gather_into_tensor(both, mine)
        found[rank] = both.tolist()
    dist.barrier()
    dist.destroy_process_group()

def test_rank_0_is_late():
    multi_threaded_pg._install_threaded_pg()
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    store, found = dist.HashStore(), {}
    ranks = [threading.Thread(target=exchange, args=(rank, store, found), daemon=True) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
    assert found == {rank: [1.0] * 4 + [2.0] * 4 for rank in range(2)}
"""


@pytest.fixture(scope="module")
def upstream() -> Any:
    """The plugin's module; it needs no torch."""
    sys.path.insert(0, str(backend_env.THIRD_DEVICE / "contract"))
    try:
        from third_device_contract import upstream as module
    finally:
        sys.path.pop(0)
    return module


def outcomes(upstream: Any, **found: str) -> list[Any]:
    return [upstream.Outcome(name, outcome, "why") for name, outcome in found.items()]


@pytest.mark.parametrize("name", ["upstream.toml", "upstream_distributed.toml"])
def test_the_list_of_the_project_is_sound(upstream: Any, name: str) -> None:
    suites = upstream.load(name)
    assert suites and len({(suite.file, suite.devices) for suite in suites}) == len(suites)
    for suite in suites:
        assert suite.why and len(suite.expected) == (3 if suite.devices else 0)
        assert bool(suite.devices) == (name != "upstream.toml")
        for entry in suite.known:
            assert entry.whose in ("upstream", "layer", "backend") and entry.reason
            assert ":" in entry.where and "/" in entry.where, f"{suite.file} {entry.test}: file and symbol of upstream"


def test_known_unexpected_and_stale_are_told_apart(upstream: Any) -> None:
    known = upstream.Known("test_flip", "layer", "no such kernel", "a/b.cpp: f")
    over = upstream.Known("test_old*", "layer", "long ago", "a/b.cpp: g")
    later = upstream.Known("test_new", "upstream", "only there", "a/b.cpp: h", releases=("2.7",))
    hangs = upstream.Known("test_hangs", "upstream", "waits", "a/b.cpp: i", run=False)
    suite = upstream.Suite("test_x.py", "why", known=(known, over, later, hangs))
    found = outcomes(
        upstream,
        test_flip_sim_float32="failed",
        test_flip_sim_int8="passed",
        test_old_one_sim="passed",
        test_new_sim="failed",
        test_other_sim="skipped",
    )
    verdict = upstream.judge(suite, found, "sim", "2.6.0")
    assert (verdict.passed, verdict.skipped) == (2, 1)
    assert [one.test for one in verdict.unexpected] == ["test_new_sim"]
    assert [test for test, _ in verdict.known] == ["test_hangs", "test_flip_sim_float32"]
    assert verdict.stale == (over,)
    assert "2 known (test_hangs: waits; test_flip: no such kernel)" in verdict.note()
    assert "take it off the list: test_old*" in verdict.note()
    assert not upstream.judge(suite, found, "sim", "2.7.1").unexpected


def test_the_device_is_a_word_of_a_test_s_name(upstream: Any) -> None:
    assert upstream.strip_device("test_cosine_similarity_sim_float32", "sim") == "test_cosine_similarity"
    assert upstream.strip_device("test_simple_sim", "sim") == "test_simple"
    assert upstream.strip_device("test_simplify", "sim") == "test_simplify"


def test_a_suite_of_known_failures_alone_is_tried(upstream: Any) -> None:
    """One that was only skipped, or has nothing but tests that are not run, is not."""
    slow = upstream.Known("test_slow", "backend", "compares milliseconds", "a/b.py: f")
    hangs = upstream.Known("test_hangs", "upstream", "waits", "a/b.cpp: i", run=False)
    suite = upstream.Suite("test_x.py", "why", known=(slow, hangs), devices=2, expected=(0, 2, 0))
    assert upstream.judge(suite, outcomes(upstream, test_slow="failed"), "sim", "2.6.0").is_tried()
    assert not upstream.judge(suite, outcomes(upstream, test_other="skipped"), "sim", "2.6.0").is_tried()


def test_a_suite_runs_in_a_process_of_its_own(upstream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file of tests does; ``torch`` is stood in for by the one function that the plugin asks."""
    (tmp_path / "torch.py").write_text("class _C:\n    _get_privateuse1_backend_name = staticmethod(lambda: 'sim')\n")
    (tmp_path / "test_x.py").write_text(
        "import os, pytest\n"
        "def test_a_sim(): assert os.environ['PYTORCH_TESTING_DEVICE_ONLY_FOR'] == 'privateuse1'\n"
        "def test_b_sim_int8(): assert 0, 'wrong'\n"
        "def test_c_sim(): pytest.skip('no')\n"
        "def test_hangs_sim(): os._exit(9)\n"
        "def test_not_about_a_device(): assert 0\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{backend_env.THIRD_DEVICE / 'contract'}")
    hangs = upstream.Known("test_hangs", "upstream", "ends the process", "a/b.cpp: f", run=False)
    suite = upstream.Suite("test_x.py", "why", known=(hangs,))
    found, tail = upstream.run(suite, tmp_path, "2.6.0", tmp_path, 60)
    assert [(one.test, one.outcome) for one in found] == [
        ("test_a_sim", "passed"),
        ("test_b_sim_int8", "failed"),
        ("test_c_sim", "skipped"),
    ], tail
    assert "wrong" in found[1].message
    found, tail = upstream.run(upstream.Suite("test_x.py", "why"), tmp_path, "2.6.0", tmp_path, 60)
    assert not found and "test_hangs_sim" in tail and "exit status 9" in tail
    found, _ = upstream.run(upstream.Suite("test_x.py", "why", only=("test_a*",)), tmp_path, "2.6.0", tmp_path, 60)
    assert [one.test for one in found] == ["test_a_sim"]


def test_a_process_that_crashes_after_its_report_is_a_failure(
    upstream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does where a backend's library is unloaded: all its tests have passed by then."""
    (tmp_path / "torch.py").write_text("class _C:\n    _get_privateuse1_backend_name = staticmethod(lambda: 'sim')\n")
    (tmp_path / "test_x.py").write_text(
        "import atexit, os, signal\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n"
        "def test_a_sim(): pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{backend_env.THIRD_DEVICE / 'contract'}")
    suite = upstream.Suite("test_x.py", "why")
    found, _ = upstream.run(suite, tmp_path, "2.6.0", tmp_path, 60)
    verdict = upstream.judge(suite, found, "sim", "2.6.0")
    assert verdict.passed == 1
    assert [(one.test, one.message) for one in verdict.unexpected] == [
        ("end of the process", "exit status -11 after the report")
    ]


def test_a_suite_that_says_cuda_runs_as_a_program_for_cuda(
    upstream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its tests are about the device, whatever their names; it runs once for each number of devices."""
    (tmp_path / "torch.py").write_text(
        "class _C:\n    _get_privateuse1_backend_name = staticmethod(lambda: 'sim')\nclass multiprocessing: pass\n"
    )
    (tmp_path / "test_x.py").write_text(
        "import os, torch\n"
        "def test_simple(): assert (os.environ['DECOUPLE_AS_CUDA'], os.environ['TD_SIM_DEVICES']) == ('sim', '4')\n"
        "def test_ranks(): assert torch.multiprocessing.get_context('spawn').get_start_method() == 'forkserver'\n"
        "def test_text(): assert 0, 'says sim'\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{backend_env.THIRD_DEVICE / 'contract'}")
    known = upstream.Known("test_text", "layer", "a text", "a/b.py: f")
    suite = upstream.Suite("test_x.py", "why", known=(known,), devices=4, expected=(2, 1, 0))
    found, tail = upstream.run(suite, tmp_path, "2.6.0", tmp_path, 60, "sim")
    verdict = upstream.judge(suite, found, "sim", "2.6.0")
    assert (verdict.passed, len(verdict.known), verdict.skipped) == suite.expected and not verdict.unexpected, tail
    assert str(suite) == "test_x-4"


def test_ranks_that_are_threads_wait_for_the_device(
    interpreter: Path, contract: Path, torch_sim: Path, upstream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 0 is late, and what the ranks exchange is copied on its stream: the others read nothing too early."""
    (tmp_path / "test_threads.py").write_text(THREADS)
    monkeypatch.setenv("PYTHONPATH", f"{torch_sim}:{contract}")
    monkeypatch.setattr(upstream.sys, "executable", str(interpreter))
    found, tail = upstream.run(upstream.Suite("test_threads.py", "why", devices=2), tmp_path, "", tmp_path, 100, "sim")
    assert [one.outcome for one in found] == ["passed"], tail


def test_a_suite_leaves_nothing_in_the_source_tree(
    upstream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That tree may be the one that the cache keeps for everybody."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    torch, tests, scratch = (tmp_path / name for name in ("torch", "tests", "scratch"))
    for folder in (torch, tests, scratch):
        folder.mkdir()
    (torch / "torch.py").write_text("class _C:\n    _get_privateuse1_backend_name = staticmethod(lambda: 'sim')\n")
    (tests / "helper.py").write_text("")
    (tests / "test_x.py").write_text("import helper\ndef test_a_sim(): pass\n")
    monkeypatch.setenv("PYTHONPATH", f"{torch}:{backend_env.THIRD_DEVICE / 'contract'}")
    found, tail = upstream.run(upstream.Suite("test_x.py", "why"), tests, "2.6.0", scratch, 60)
    assert [one.outcome for one in found] == ["passed"], tail
    assert sorted(path.name for path in tests.rglob("*")) == ["helper.py", "test_x.py"]


def test_the_tests_of_another_release_are_recognised(upstream: Any, tmp_path: Path) -> None:
    (tmp_path / "test").mkdir()
    assert upstream.release_of(tmp_path / "test") is None
    (tmp_path / "version.txt").write_text("2.6.0a0\n")
    assert upstream.release_of(tmp_path / "test") == "2.6.0"
