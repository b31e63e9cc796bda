"""Running test files in processes of their own and comparing two runs: on small real test files, with a real pytest."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from decouple import cli
from decouple.base.errors import DecoupleError, UsageError
from decouple.base.files import hold_lock
from decouple.base.paths import find_project
from decouple.cli import test_cuda as cli_test_cuda
from decouple.flows import test_cuda as flow
from decouple.flows.listener import Listener
from decouple.flows.test_patches import PatchTrialRequest, try_patches
from decouple.flows.work_environment import WorkRequest
from decouple.release import proofs, status
from decouple.suites import catalog, compare, file_digests, junit, run, shards, simulated_device, store, target
from decouple.suites.catalog import Suite
from decouple.suites.store import ResultStore, SuiteResult
from decouple.suites.target import Target
from simcuda import unset_bytes

TESTS = """
import os, signal, time, unittest
from pathlib import Path

class TestGood(unittest.TestCase):
    def test_one(self): pass
    def test_two(self): pass

class TestMixed(unittest.TestCase):
    def test_a_fails(self): self.fail("two is not three")
    def test_b_flaky(self):
        mark = Path(__file__).with_name("seen")
        seen = mark.exists()
        mark.write_text("")
        self.assertTrue(seen)
    @unittest.skip("no such device")
    def test_c_skipped(self): pass
    def test_d_dies(self): os.kill(os.getpid(), signal.SIGSEGV)
    def test_e_hangs(self): time.sleep(600)
    def test_f_after_all(self): pass
"""
SUITE = Suite("things", ("test_things.py",), "", process=50, seconds=3.0)
ABOUT = {"torch": "2.6.0", "git": "x", "cuda": "12.4", "python": "3.13", "libraries": {}, "device": "gpu", "devices": 1}
ABOUT |= {"memory": [8 << 30], "recorded": False}


@pytest.fixture
def here(tmp_path: Path) -> Target:
    """This Python with TESTS as its suite; without torch, which the runner has no need of."""
    tests, work = tmp_path / "test", tmp_path / "work"
    tests.mkdir()
    work.mkdir()
    (tests / "test_things.py").write_text(TESTS)
    return Target("here", (sys.executable,), "gpu", str(tests), work, str(work), str(find_project()))


def test_collecting_asks_pytest_and_says_why_there_is_nothing(here: Target) -> None:
    assert len(run.collect_tests(here, SUITE, "test_things.py").ids) == 8
    chosen = run.collect_tests(here, structs.replace(SUITE, select="TestGood"), "test_things.py").ids
    assert chosen == ("test_things.py::TestGood::test_one", "test_things.py::TestGood::test_two")
    Path(here.tests, "test_broken.py").write_text("import nothing_of_that_name\n")
    assert "nothing_of_that_name" in run.collect_tests(here, SUITE, "test_broken.py").why


def test_a_users_own_options_of_pytest_do_not_choose_the_tests(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `-v` or `-q` "no test was collected", with `-m` some were left out of a run that was called whole."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-v")
    torch = structs.replace(here, variables=catalog.select_variables("gpu"))
    assert len(run.collect_tests(torch, structs.replace(SUITE, select="TestGood"), "test_things.py").ids) == 2


def test_colours_do_not_hide_why_a_file_is_not_collected(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """CI sets FORCE_COLOR: of the error only "no tests collected, 1 error" was told."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    torch = structs.replace(here, variables=catalog.select_variables("gpu"))
    Path(here.tests, "test_broken.py").write_text("import nothing_of_that_name\n")
    assert "nothing_of_that_name" in run.collect_tests(torch, SUITE, "test_broken.py").why


def test_each_test_has_an_outcome_whatever_the_one_before_did(here: Target) -> None:
    kept = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, [run.collect_tests(here, SUITE, "test_things.py")], kept) == 8
    found = {name.rpartition("::")[2]: one for name, one in kept.results.items()}
    assert {name: one.outcome for name, one in found.items()} == {
        "test_one": "passed",
        "test_two": "passed",
        "test_a_fails": "failed",
        "test_b_flaky": "passed",
        "test_c_skipped": "skipped",
        "test_d_dies": "died",
        "test_e_hangs": "too slow",
        "test_f_after_all": "passed",
    }
    assert "two is not three" in found["test_a_fails"].why and found["test_a_fails"].attempts == 2
    assert (found["test_b_flaky"].flaky, found["test_b_flaky"].attempts) == (True, 2)
    assert found["test_d_dies"].why == "its process ended by signal 11"
    assert compare.tally_outcomes(kept.results.values())["things"]["flaky"] == 1


def test_a_run_goes_on_where_it_was_stopped(here: Target) -> None:
    collected = [run.collect_tests(here, structs.replace(SUITE, select="TestGood"), "test_things.py")]
    assert run.run_tests(here, collected, ResultStore(here.folder, ABOUT, "d"), only=lambda test: "two" in test) == 1
    (here.folder / "results.jsonl").open("a").write('{"id": "cut o')  # the line that a kill left
    again = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, collected, again) == 1
    assert run.run_tests(here, collected, again) == 0


def test_a_failure_that_was_not_tried_again_before_the_stop_is_tried_again(here: Target) -> None:
    """The next run took it for settled, so a flaky test stayed a failure for good."""
    collected = [run.collect_tests(here, structs.replace(SUITE, select="flaky or fails"), "test_things.py")]
    first = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, collected, first, retries=0) == 2  # as it is when the time of --minutes is over
    again = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, collected, again, expected=lambda result: "fails" in result.id) == 1
    found = {name.rpartition("::")[2]: (one.outcome, one.flaky, one.attempts) for name, one in again.results.items()}
    assert found == {"test_a_fails": ("failed", False, 1), "test_b_flaky": ("passed", True, 2)}
    assert run.run_tests(here, collected, ResultStore(here.folder, ABOUT, "d")) == 1
    assert run.run_tests(here, collected, ResultStore(here.folder, ABOUT, "d")) == 0  # each as often as --retries says


def test_a_failure_of_a_process_with_one_test_is_tried_again_at_once(here: Target) -> None:
    """It failed for good in this run; the same command once more found it flaky."""
    collected = [run.collect_tests(here, structs.replace(SUITE, select="flaky", process=1), "test_things.py")]
    kept = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, collected, kept) == 1
    (result,) = kept.results.values()
    assert (result.outcome, result.flaky, result.attempts) == ("passed", True, 2)
    assert run.run_tests(here, collected, kept) == 0


def test_a_failure_that_is_skipped_when_it_is_tried_alone_is_still_a_failure(here: Target) -> None:
    """It was "skipped" and flaky: of a wrong result neither the figures nor the exit code told."""
    Path(here.tests, "test_alone.py").write_text(
        "import pytest\nfrom pathlib import Path\n"
        "def test_it():\n    mark = Path(__file__).with_name('mark')\n"
        "    if mark.exists(): pytest.skip('too little memory')\n    mark.touch()\n    assert 2 == 3, 'wrong result'\n"
    )
    kept = ResultStore(here.folder, ABOUT, "d")
    collected = [run.collect_tests(here, SUITE, "test_alone.py")]
    assert run.run_tests(here, collected, kept) == 1
    (result,) = kept.results.values()
    assert (result.outcome, result.flaky, result.attempts) == ("failed", False, 2)
    assert "wrong result" in result.why
    assert run.run_tests(here, collected, kept) == 0


CRASH = """
import atexit, os, signal, time, unittest
class TestGood(unittest.TestCase):
    @classmethod
    def setUpClass(cls): atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))
    def test_one(self): pass
    def test_two(self): pass
"""
END = "test_things.py::(end of a process)"


@pytest.mark.parametrize(
    ("fault", "outcome", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died", "its process ended by signal 11"),
        ("os._exit(3)", "died", "its process ended with exit status 3"),
        ("time.sleep(600)", "too slow", "its process did not end in 20 s"),
    ],
)
def test_a_process_that_ends_badly_behind_its_tests_is_a_failure(
    here: Target, monkeypatch: pytest.MonkeyPatch, fault: str, outcome: str, why: str
) -> None:
    """Libraries that are unloaded in the wrong order crash there: all tests had passed, and the log was gone."""
    monkeypatch.setattr(run, "START", 20.0)
    Path(here.tests, "test_things.py").write_text(CRASH.replace("os.kill(os.getpid(), signal.SIGSEGV)", fault))
    done = run_here(here, monkeypatch, flow.SuiteChoice())
    assert (done.ran, len(done.results), done.collected, done.unfinished) == (2, 3, 3, ())
    assert (done.results[END].outcome, done.results[END].suite) == (outcome, "things")
    assert done.results[END].why == f"{why}, behind test_things.py::TestGood::test_two"
    assert [path.suffix for path in here.folder.glob("shards/*")] == [".log"]
    assert not cli_test_cuda._print_results(done.results, "gpu", None)
    assert run_here(here, monkeypatch, flow.SuiteChoice()).results == done.results  # the next run tells it, too


def test_a_process_with_one_test_that_is_tried_again_may_end_badly_too(here: Target) -> None:
    Path(here.tests, "test_things.py").write_text(
        "import atexit, os, signal\nfrom pathlib import Path\n"
        "def test_one():\n    mark = Path(__file__).with_name('mark')\n"
        "    if mark.exists(): atexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n    mark.touch()\n"
        "    assert 2 == 3\n"
    )
    kept = ResultStore(here.folder, ABOUT, "d")
    run.run_tests(here, [run.collect_tests(here, SUITE, "test_things.py")], kept)
    assert {name.rpartition("::")[2]: one.outcome for name, one in kept.results.items()} == {
        "test_one": "failed",
        "(end of a process)": "died",
    }


def test_a_process_that_ended_badly_on_one_build_alone_is_a_difference() -> None:
    """The comparison with the official wheel said "the same"."""
    good = {"t.py::x": SuiteResult("t.py::x", "passed")}
    bad = {**good, "t.py::(end of a process)": SuiteResult("t.py::(end of a process)", "died", why="by signal 11")}
    (difference,) = compare.compare_results(bad, good).differences
    assert (difference.ours, difference.theirs) == ("died (by signal 11)", "no such failure")
    assert compare.compare_results(bad, bad).ok and compare.compare_results(good, bad).ok
    other = {"other.py::(end of a process)": SuiteResult("other.py::(end of a process)", "died")}
    assert compare.compare_results({**good, **other}, good).ok  # of a file that the other build did not run


def test_what_is_added_behind_a_line_that_a_kill_left_can_be_read(tmp_path: Path) -> None:
    """Else the third run refuses the whole file, with the hours in it."""
    ResultStore(tmp_path, ABOUT, "d").add([SuiteResult("one", "passed")])
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"id": "cut o')
    ResultStore(tmp_path, ABOUT, "d").add([SuiteResult("two", "passed")])
    assert list(ResultStore(tmp_path, ABOUT, "d").results) == ["one", "two"]


@pytest.mark.tools("pgrep")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_tests_and_keeps_what_was_done(here: Target, number: signal.Signals) -> None:
    def interrupt() -> None:
        while not any('test_e_hangs"' in path.read_text() for path in here.folder.glob("shards/*.jsonl")):
            time.sleep(0.1)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    patient = structs.replace(SUITE, select="test_c_skipped or test_e_hangs", seconds=500.0)
    collected = [run.collect_tests(here, patient, "test_things.py")]
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run.run_tests(here, collected, ResultStore(here.folder, ABOUT, "d"))
    finally:
        signal.signal(signal.SIGINT, before)
    assert [name.rpartition("::")[2] for name in ResultStore(here.folder, ABOUT, "d").results] == ["test_c_skipped"]
    left = subprocess.run(["pgrep", "-f", str(here.folder)], capture_output=True, text=True).stdout.split()
    assert left == []


def test_results_of_another_build_are_not_mixed_in(tmp_path: Path) -> None:
    ResultStore(tmp_path, ABOUT, "one")
    with pytest.raises(UsageError, match="results of another build"):
        ResultStore(tmp_path, ABOUT, "two")
    (tmp_path / "shards").mkdir()
    assert ResultStore(tmp_path, ABOUT, "two", again=True).results == {}
    assert not (tmp_path / "shards").exists()


def test_a_torch_with_another_file_is_another_build_and_says_its_series(tmp_path: Path) -> None:
    """A patch of Python files leaves each library as large as it was: results of before it were taken for today's."""
    site, info = tmp_path / "site", tmp_path / "site/torch-2.6.0.dist-info"
    info.mkdir(parents=True)
    (site / "torch.py").write_text(
        "import types\n__version__ = '2.6.0'\nversion = types.SimpleNamespace(git_version='x', cuda=None)\n"
        "cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 1)\n"
        "cuda.get_device_properties = lambda number: types.SimpleNamespace(total_memory=1)\n"
    )
    (info / "METADATA").write_text("Name: torch\nVersion: 2.6.0\n")
    (info / "decouple.json").write_text(json.dumps({"series": {"digest": "ab"}}))
    torch = Target(
        "here", (sys.executable,), "gpu", "/", tmp_path, "/", str(find_project()), variables={"PYTHONPATH": str(site)}
    )

    def open_store(*record: str) -> ResultStore:
        (info / "RECORD").write_text("".join(f"{line}\n" for line in record))
        about = torch.describe_torch()
        assert about["series"] == ["ab"]
        return ResultStore(tmp_path / "work", about, target.hash_identity(about))

    open_store("torch/cuda/__init__.py,sha256=one,9")
    installed = "torch-2.6.0.dist-info/INSTALLER,sha256=x,3", "../../../bin/torchrun,sha256=x,3", "torch/a.pyc,,"
    open_store(*installed, "torch/cuda/__init__.py,sha256=one,9")  # what installing adds is not the build's
    with pytest.raises(UsageError, match="results of another build"):
        open_store(*installed, "torch/cuda/__init__.py,sha256=two,9")


def test_what_is_recorded_is_of_the_series_of_the_wheels_that_ran(tmp_path: Path) -> None:
    """Not of the checkout's, which may be newer: the table would call an old wheel's figures today's."""
    path = status.locate_status(tmp_path, "2.6")
    status.update_status(path, series=status.SeriesSection(2, "today's"))
    done = flow.SuiteRun(1, {"t": SuiteResult("t", "passed", suite="things")}, tmp_path, ("the wheel's",))
    flow.record_results(tmp_path, "2.6", ("here", "gpu"), done, "", None)
    assert status.read_status(path).recorded["suites/here-gpu"].series == "the wheel's"
    with pytest.raises(DecoupleError, match="made of different series"):
        flow.record_results(tmp_path, "2.6", ("here", "gpu"), structs.replace(done, series=("a", "b")), "", None)
    before, edited, warned = path.read_bytes(), structs.replace(done, series=("a", "a+edits")), list[str]()
    flow.record_results(tmp_path, "2.6", ("here", "gpu"), edited, "", None, Listener(warn=warned.append))
    assert path.read_bytes() == before and warned[0].startswith("here: made of a tree with edits that are in no patch")


def test_results_of_another_machine_are_recorded_from_their_folders(tmp_path: Path) -> None:
    """So a machine with a GPU needs no checkout to record in."""
    for label, series in (("ours", ["the wheel's"]), ("official", [])):
        kept = ResultStore(tmp_path / label, {**ABOUT, "label": label, "series": series}, "x")
        kept.add([SuiteResult("t.py::x", "passed", suite="things", ledger=ledger(device="gpu", plain="p"))])
        kept.write_collected({"t.py 1 -k ": ["t.py::x", "t.py::y"], "other.py 1 -k ": ["other.py::z"]})
    folders = tmp_path / "ours", tmp_path / "official"
    seen = compare.compare_results(*map(store.read_results, folders))
    flow.record_stored(tmp_path, "2.6", *folders, seen)
    found = status.read_status(status.locate_status(tmp_path, "2.6"))
    ours = found.suites["ours-gpu"]
    assert (ours.tally, ours.collected, ours.series) == ({"things": {"passed": 1}}, 3, "the wheel's")
    assert ours.against and (ours.against.label, ours.against.outcomes, ours.against.loose) == ("official", 1, 1)
    assert found.suites["official-gpu"].series == ""
    flow.record_stored(tmp_path, "2.6", *reversed(folders), seen)
    found = status.read_status(status.locate_status(tmp_path, "2.6"))
    assert found.suites["ours-gpu"].against == ours.against  # it was compared with another, and that is not lost
    with pytest.raises(DecoupleError, match="no folder of results"):
        flow.record_stored(tmp_path, "2.6", tmp_path, folders[1], seen)


def store_run(folder: Path, suites: Mapping[str, range], ran: int, words: str = "") -> Path:
    """Results of the first ``ran`` tests of the suites, each with a file of its name."""
    kept = ResultStore(folder, {**ABOUT, "label": folder.name}, "x")
    tests = [(suite, f"test_{suite}.py::t{number}") for suite, numbers in suites.items() for number in numbers]
    kept.add(SuiteResult(test, "passed", suite=suite) for suite, test in tests[:ran])
    selected = {suite.name: suite.select_words(words) for suite in catalog.load_suites()}
    names = {suite: store.name_selection(f"test_{suite}.py", 1, selected[suite]) for suite in suites}
    kept.write_collected({names[suite]: [test for of, test in tests if of == suite] for suite in suites})
    return folder


def test_of_a_run_that_broke_off_its_folder_tells_how_many_tests_have_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that it did not come to were left out of the figure: "207 passed; 0 of 207 not as official", "holds"."""
    suites = {"cuda": range(4), "torch": range(6)}
    folders = store_run(tmp_path / "ours", suites, 4), store_run(tmp_path / "official", suites, 10)
    monkeypatch.setattr(cli_test_cuda, "find_project", lambda: tmp_path)
    assert cli.main(["test-cuda", "2.6", "--record", "--compare", *map(str, folders)]) == 0
    assert "part           4 of 10 tests of ours have a result\n" in capsys.readouterr().out
    found = status.read_status(status.locate_status(tmp_path, "2.6"))
    assert [found.suites[name].collected for name in ("ours-gpu", "official-gpu")] == [10, 10]
    figures = {row.figure for row in proofs.list_proof_rows(found) if row.name.startswith(proofs.SUITES)}
    assert figures == {"4 of 10 tests: 4 passed; 0 of 4 not as official", "10 passed"}


def test_a_folder_compared_with_itself_is_not_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name typed twice was the proof that no test differs: "0 of 4 not as ours", "holds"."""
    folder = store_run(tmp_path / "ours", {"cuda": range(4)}, 4)
    monkeypatch.setattr(cli_test_cuda, "find_project", lambda: tmp_path)
    words = ["test-cuda", "2.6", "--record", "--compare", str(folder), str(tmp_path / "." / "ours")]
    assert cli.main(words) == 2 and "the same folder twice" in capsys.readouterr().err
    assert not status.locate_status(tmp_path, "2.6").exists()


def test_a_record_of_a_few_tests_by_name_says_which(
    here: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`test-cuda 2.6 cuda -k one --record` stood as all of the suite: "1 passed", "holds", by a command without -k."""
    folder = store_run(tmp_path / "stored", {"torch": range(2)}, 2, "t0 or t1")
    flow.record_results(tmp_path, "2.6", ("built", "gpu"), flow.read_stored_run(folder)[0], "", None)
    (row,) = proofs.PROOFS[proofs.SUITES].describe(status.read_status(status.locate_status(tmp_path, "2.6")))
    assert row.text == "those of -k 't0 or t1': 2 passed" and "-k 't0 or t1'" in row.command
    assert flow.read_stored_run(store_run(tmp_path / "whole", {"torch": range(2)}, 2))[0].words == ""
    assert run_here(here, monkeypatch, flow.SuiteChoice(words="one", minutes=0.0)).words == "one"


@pytest.mark.parametrize(("words", "code"), [("", 1), ("t0 or t1", 0)])
def test_what_the_other_folder_alone_has_of_the_same_suites_is_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, code: int
) -> None:
    """With words for -k, which are not in the suite's own selection, nobody knows that."""
    ours = store_run(tmp_path / "ours", {"torch": range(2)}, 2, words)
    theirs = store_run(tmp_path / "official", {"torch": range(3), "cuda": range(2)}, 5)
    assert cli.main(["test-cuda", "2.6", "--compare", str(ours), str(theirs)]) == code
    told = capsys.readouterr().out
    assert ("outcome: test_torch.py::t2: there is no such test; official: passed" in told) == bool(code)
    assert "part" not in told and "test_cuda.py" not in told


def test_what_was_collected_of_a_file_that_changed_is_forgotten_with_its_results(tmp_path: Path) -> None:
    """A test that is gone would stand as one without a result."""
    store_run(tmp_path, {"cuda": range(1), "torch": range(1)}, 2)
    kept = ResultStore(tmp_path, ABOUT, "x")
    kept.forget_changed({"test_cuda.py": "a", "test_torch.py": "a"})
    kept.forget_changed({"test_cuda.py": "b"})
    assert list(kept.results) == ["test_torch.py::t0"]
    assert list(kept.read_collected().values()) == [["test_torch.py::t0"]]


@pytest.mark.parametrize("before", [None, "a", "a modules"], ids=["nothing", "the text", "both"])
def test_what_was_noted_of_a_file_is_compared(tmp_path: Path, before: str | None) -> None:
    """Results of a run that noted the texts alone are kept, or all of them would run again for no change."""
    store_run(tmp_path, {"cuda": range(1)}, 1)
    kept = ResultStore(tmp_path, ABOUT, "x")
    kept.forget_changed({"test_cuda.py": before} if before else {})
    kept.forget_changed({"test_cuda.py": "a modules"})
    assert kept.results
    kept.forget_changed({"test_cuda.py": "a others"})
    assert not kept.results


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("jit/test_models.py", {"test_jit.py", "test_jit_fuser.py"}),
        ("jit/fixtures.py", {"test_jit.py", "test_jit_fuser.py"}),
        ("jit/__init__.py", {"test_jit.py", "test_jit_fuser.py"}),
        ("inductor/common.py", {"inductor/test_cuda_repro.py"}),
        ("jit/unread.py", set()),
    ],
)
def test_a_test_file_changes_with_the_modules_that_it_imports(tmp_path: Path, module: str, changed: set[str]) -> None:
    """The tests of upstream's test_jit.py stand in jit/: one that was mended there kept its failure."""
    texts = {
        "test_jit.py": "import sys, torch\nfrom jit.test_models import (\n    TestModels,  # noqa: F401\n)\n",
        "test_jit_fuser.py": "try:\n    from test_jit import JitTestCase\nexcept ImportError:\n    raise\n",
        "jit/__init__.py": "",
        "jit/test_models.py": "from . import fixtures\nfrom test_jit import JitTestCase\n",
        "jit/fixtures.py": "import os\n",
        "jit/unread.py": "import jit.test_models\n",
        "inductor/test_cuda_repro.py": "import torch.cuda as cuda, common as base\n",
        "inductor/common.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = ["test_jit.py", "test_jit_fuser.py", "inductor/test_cuda_repro.py"]
    before = file_digests.hash_test_files(tmp_path, files)
    (tmp_path / module).write_text("# changed\n")
    after = file_digests.hash_test_files(tmp_path, files)
    assert {file for file in files if before[file] != after[file]} == changed


WHOLE = {test: SuiteResult(test, "passed", suite=suite) for test, suite in (("a", "cuda"), ("b", "cuda"), ("c", "nn"))}
"""Results of two suites."""


@pytest.mark.parametrize("part", [["a", "b"], ["a", "c"]], ids=["of a suite", "a slice"])
def test_a_record_of_a_part_does_not_replace_that_of_the_whole(tmp_path: Path, part: list[str]) -> None:
    """`test-cuda 2.6 cuda --record` took the other suites out of the table."""
    whole = flow.SuiteRun(3, WHOLE, tmp_path, ("the wheel's",))
    some = structs.replace(whole, results={test: WHOLE[test] for test in part})
    flow.record_results(tmp_path, "2.6", ("built", "simulated"), whole, "", None)
    path = status.locate_status(tmp_path, "2.6")
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"--record: what is recorded of built-simulated is of (nn|3 tests)") as said:
        flow.record_results(tmp_path, "2.6", ("built", "simulated"), some, "", None)
    assert path.read_bytes() == before and "--label NAME" in str(said.value.next_step)
    flow.record_results(tmp_path, "2.6", ("built-some", "simulated"), some, "", None)
    flow.record_results(tmp_path, "2.6", ("built", "simulated"), structs.replace(some, series=("today's",)), "", None)
    runs = status.read_status(path).suites
    assert runs["built-simulated"].tally == runs["built-some-simulated"].tally  # of a series that had none


def test_a_record_says_how_many_tests_passed_only_when_tried_again(tmp_path: Path) -> None:
    """Such a test stood there as any that passed."""
    tried = {"a": WHOLE["a"], "b": structs.replace(WHOLE["b"], flaky=True, attempts=2)}
    flow.record_results(tmp_path, "2.6", ("built", "simulated"), flow.SuiteRun(2, tried, tmp_path, ()), "", None)
    run = status.read_status(status.locate_status(tmp_path, "2.6")).suites["built-simulated"]
    assert (run.flaky, run.tally) == (1, {"cuda": {"passed": 2}})


def test_a_record_says_with_which_seed_and_devices_its_command_runs_the_same_tests(tmp_path: Path) -> None:
    """A slice could not be run again by the command that stood beside it."""
    options = ("--devices", "4", "--seed", "43")
    done = flow.SuiteRun(1, {"a": WHOLE["a"]}, tmp_path, collected=3, options=options)
    flow.record_results(tmp_path, "2.6", ("built", "simulated"), done, "", None)
    recorded = status.read_status(status.locate_status(tmp_path, "2.6"))
    (row,) = proofs.PROOFS[proofs.SUITES].describe(recorded)
    assert row.command.endswith("--label built --slice 1 --devices 4 --seed 43 --record")


def test_another_slice_of_the_same_suites_replaces_the_record(tmp_path: Path) -> None:
    """Each commit chooses another, which may have no test of one of them."""
    for tests in (["a", "c"], ["a", "b"]):
        done = flow.SuiteRun(2, {test: WHOLE[test] for test in tests}, tmp_path, (), ("cuda", "nn"))
        flow.record_results(tmp_path, "2.6", ("built", "simulated"), done, "", None)
    run = status.read_status(status.locate_status(tmp_path, "2.6")).suites["built-simulated"]
    assert run.tally == {"cuda": {"passed": 2}}


def test_a_whole_run_replaces_the_record_of_suites_and_tests_that_are_gone(tmp_path: Path) -> None:
    """It was refused for ever: no run has a suite that was renamed, or a test that its suite leaves out by now."""
    torch, path = ("built", "simulated"), status.locate_status(tmp_path, "2.6")
    recorded = status.SuitesSection(
        "simulated", store.OUTCOMES, {"cuda": {"passed": 3}, "gone": {"passed": 9}}, "built"
    )
    status.update_status(path, suites={"built-simulated": recorded})
    assert flow.describe_loss(recorded, (), ["cuda", "nn"], None) == ""
    done = flow.SuiteRun(1, {"a": WHOLE["a"]}, tmp_path, (), ("cuda",), whole=True)
    for part in (structs.replace(done, whole=False), structs.replace(done, unfinished=("b",))):
        with pytest.raises(UsageError, match="is of 3 tests, and this run of 1"):
            flow.record_results(tmp_path, "2.6", torch, part, "", None)
    flow.record_results(tmp_path, "2.6", torch, done, "", None)
    assert status.read_status(path).suites["built-simulated"].tally == {"cuda": {"passed": 1}}


@pytest.mark.parametrize("choice", [{"slice": 1}, {"words": "one"}])
def test_a_run_that_cannot_be_recorded_is_refused_before_it_throws_results_away(
    here: Target, monkeypatch: pytest.MonkeyPatch, choice: dict[str, Any]
) -> None:
    recorded = status.SuitesSection("gpu", store.OUTCOMES, {"things": {"passed": 2}}, "here")
    kept = ResultStore(here.folder, ABOUT, target.hash_identity(ABOUT))
    kept.add([SuiteResult("test_things.py::TestGood::test_one", "passed", suite="things")])
    again = flow.SuiteChoice(**choice, again="slice" in choice)  # of words nobody knows how many tests they are
    with pytest.raises(UsageError, match="what is recorded of here-gpu is of 2 tests, and this run of 1"):
        run_here(here, monkeypatch, again, recorded=recorded)
    assert len(ResultStore(here.folder, ABOUT, target.hash_identity(ABOUT)).results) == 1


def test_what_is_a_device_of_its_own_has_a_digest_of_its_own() -> None:
    assert target.hash_identity(ABOUT) != target.hash_identity({**ABOUT, "device": "simulated"})
    assert target.hash_identity(ABOUT) != target.hash_identity({**ABOUT, "libraries": {"libtorch_cuda.so": 5}})


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [("--devices", "devices", 2), ("--memory", "memory", [1]), ("--ledger", "recorded", True)],
)
def test_results_with_other_options_that_decide_outcomes_are_not_mixed_in(
    tmp_path: Path, option: str, field: str, value: object
) -> None:
    """Tests that were skipped for want of memory stayed skipped with more of it."""
    assert target.hash_identity(ABOUT) != target.hash_identity({**ABOUT, field: value})
    ResultStore(tmp_path, ABOUT, target.hash_identity(ABOUT))
    other = {**ABOUT, field: value}
    with pytest.raises(UsageError, match=f"results of a run with another {option} ") as said:
        ResultStore(tmp_path, other, target.hash_identity(other))
    assert "--label NAME" in str(said.value.next_step)


def test_results_of_another_simulated_device_are_told(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that a change of it mends stayed one, and a pass a pass, under the date of the day."""
    simulated, theirs = structs.replace(here, device="simulated"), results_of_theirs("TestGood::test_one")
    told = []
    for digest in ("a", "a", "b"):
        monkeypatch.setattr(simulated_device, "hash_simulator", lambda digest=digest: digest)
        choice, said = flow.SuiteChoice(slice=1, minutes=0.0), list[str]()
        run_here(simulated, monkeypatch, choice, theirs, listener=Listener(warn=said.append))
        ResultStore(here.folder, ABOUT, target.hash_identity(ABOUT)).add(theirs.values())
        told.append(any("scripts/simcuda changed" in line and "--again" in line for line in said))
    assert told == [False, False, True]


def test_results_beside_another_numpy_or_scipy_are_told(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who took an older SciPy for the sake of known failures had them still, and no test was run."""
    theirs, told = results_of_theirs("TestGood::test_one"), []
    for packages in ({"scipy": "1.18"}, {"scipy": "1.18", "numpy": "2.4"}, {"scipy": "1.14"}):
        monkeypatch.setitem(ABOUT, "packages", packages)
        said = list[str]()
        run_here(here, monkeypatch, flow.SuiteChoice(slice=1, minutes=0.0), theirs, listener=Listener(warn=said.append))
        ResultStore(here.folder, ABOUT, target.hash_identity(ABOUT)).add(theirs.values())
        told.append([line for line in said if "scipy changed" in line and "--again" in line] != [])
    assert told == [False, False, True]


def test_the_tests_of_a_file_whose_text_changed_run_again(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that was mended kept its failure, and one that was broken its success."""
    file, other = Path(here.tests, "test_things.py"), Path(here.tests, "test_other.py")
    other.write_text("from helper import SIZE\ndef test_it(): pass\n")
    helper = Path(here.tests, "helper.py")
    helper.write_text("SIZE = 1\n")
    suites = (
        structs.replace(SUITE, select="TestGood"),
        Suite("other", ("test_other.py",), "", process=50, seconds=3.0),
    )
    assert run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites).ran == 3
    file.write_text(TESTS.replace("def test_two(self): pass", "def test_three(self): pass"))
    done = run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites)
    assert (done.ran, {name.rpartition("::")[2] for name in done.results}) == (2, {"test_one", "test_three", "test_it"})
    assert len(store.read_results(here.folder)) == 3  # what is compared with later
    assert run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites).ran == 0
    helper.write_text("SIZE = 2\n")
    assert run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites).ran == 1


def test_a_test_that_was_too_slow_runs_again_with_more_patience(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(here.tests, "test_slow.py").write_text("import time\ndef test_it(): time.sleep(3)\n")
    slow = (Suite("slow", ("test_slow.py",), "", process=50, seconds=0.5),)
    ended = [
        (done.ran, *(result.outcome for result in done.results.values()))
        for patience in (1.0, 1.0, 60.0, 60.0)
        for done in (run_here(here, monkeypatch, flow.SuiteChoice(patience=patience, retries=0), suites=slow),)
    ]
    assert ended == [(1, "too slow"), (0, "too slow"), (1, "passed"), (0, "passed")]


def test_a_python_without_torch_is_told_in_its_own_words(here: Target) -> None:
    bare = structs.replace(here, python=(sys.executable, "-S", "-E"))
    with pytest.raises(DecoupleError, match="ModuleNotFoundError"):
        bare.describe_torch()


def test_a_simulated_device_that_cannot_be_made_is_told_with_its_reason_and_hint(here: Target) -> None:
    """The hint was told as the reason: "torch cannot be asked: next: set SIMCUDA_WHEELS"."""
    with pytest.raises(DecoupleError, match="has no torch") as failed:
        structs.replace(here, device="simulated", project=str(find_project())).describe_torch()
    assert failed.value.next_step == "install one, or name another interpreter with --python"


def test_auto_takes_a_gpu_where_there_is_one() -> None:
    assert (target.choose_device("auto", True), target.choose_device("auto", False)) == ("gpu", "simulated")
    assert target.choose_device("simulated", True) == "simulated"
    with pytest.raises(DecoupleError, match="sees no CUDA device"):
        target.check_device({**ABOUT, "label": "x", "available": False}, "gpu")


def test_the_node_of_a_driver_alone_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").touch()
    assert not target.has_gpu(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert target.has_gpu(tmp_path)


def test_what_the_simulated_device_cannot_pass_is_known_by_its_own_list(
    here: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "t.py::A::x", "outcome": "failed", "why": "no network", "known": "network: fetched", "ledger": None}
    (here.folder / "rows").write_text(f"{json.dumps(row)}\n")
    found = store.read_results(here.folder / "rows")
    assert cli_test_cuda._print_results(found, "simulated", None)
    assert "1 failures are known" in capsys.readouterr().out
    unknown = {"t.py::A::x": structs.replace(found["t.py::A::x"], known="")}
    assert not cli_test_cuda._print_results(unknown, "simulated", None)
    assert cli_test_cuda._print_results(unknown, "simulated", None, theirs=unknown)


def test_values_are_computed_by_one_thread_per_job_on_the_simulated_device_only() -> None:
    assert catalog.select_variables("simulated")["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in catalog.select_variables("gpu")


def test_another_vendors_tests_are_chosen_as_upstreams_ci_does() -> None:
    assert catalog.select_variables("simulated", "rocm")["PYTORCH_TEST_WITH_ROCM"] == "1"
    assert "PYTORCH_TEST_WITH_ROCM" not in catalog.select_variables("simulated")


def test_small_classes_share_a_process_and_a_large_one_is_cut() -> None:
    ids = [f"t.py::{name}::test_{number}" for name, count in (("A", 2), ("B", 2), ("C", 7)) for number in range(count)]
    cut = shards.cut_shards("s", "t.py", ids, 4)
    assert [len(one.ids) for one in cut] == [4, 4, 3]
    assert [test for one in cut for test in one.ids] == ids


def test_a_slice_is_the_same_for_a_commit_and_another_for_the_next() -> None:
    ids = [f"test_{number}" for number in range(1000)]
    assert shards.choose_slice(ids, 50, "abc") == shards.choose_slice(reversed(ids), 50, "abc")
    assert len(shards.choose_slice(ids, 50, "abc") & shards.choose_slice(ids, 50, "abd")) < 15


def test_a_slice_of_few_files_has_as_many_tests_of_each() -> None:
    ids = [f"{file}.py::A::test_{number}" for file in "abcdef" for number in range(100 if file != "a" else 3)]
    some = [shards.choose_slice(ids, 30, seed, files=3) for seed in ("x", "y", "z", "abc")]
    assert {len(one) for one in some} == {30} and {len({test[0] for test in one}) for one in some} == {3}
    assert len({frozenset(test[0] for test in one) for one in some}) > 1
    shares = [sorted(Counter(test[0] for test in one).values()) for one in some]
    assert all(share in ([10, 10, 10], [3, 13, 14]) for share in shares)
    assert shards.choose_slice(ids, 30, "x", files=3) == shards.choose_slice(reversed(ids), 30, "x", files=3)


def test_ranks_that_upstreams_harness_ended_were_too_slow(here: Target) -> None:
    said = "Process 0 terminated or timed out after 300.2 seconds"
    Path(here.tests, "test_ranks.py").write_text(f"def test_waits(): raise RuntimeError({said!r})\n")
    suite = structs.replace(SUITE, name="ranks", files=("test_ranks.py",))
    store = ResultStore(here.folder, ABOUT, "one")
    run.run_tests(here, [run.collect_tests(here, suite, "test_ranks.py")], store, retries=0)
    assert [result.outcome for result in store.results.values()] == ["too slow"]


def test_a_test_that_this_torch_does_not_have_has_failed_and_the_others_run(here: Target) -> None:
    asked = ("test_things.py::TestGood::test_two", "test_things.py::TestGood::test_three")
    kept = ResultStore(here.folder, ABOUT, "d")
    assert run.run_tests(here, [run.CollectionResult(SUITE, "test_things.py", asked)], kept, retries=0) == 2
    found = {name.rpartition("::")[2]: (one.outcome, one.why) for name, one in kept.results.items()}
    assert found == {"test_two": ("passed", ""), "test_three": ("failed", "there is no such test")}


def test_a_slice_of_what_another_build_ran_is_quick_and_collects_nothing(
    here: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Target, "describe_torch", lambda _: ABOUT | {"available": True})
    monkeypatch.setattr(catalog, "select_suites", lambda _: (SUITE,))
    monkeypatch.setattr(run, "collect_tests", lambda *_: pytest.fail("collected"))
    theirs = {
        f"{file}.py::{test}": SuiteResult(f"{file}.py::{test}", outcome, seconds)
        for file, test, outcome, seconds in (
            ("test_things", "TestGood::test_one", "passed", 1.0),
            ("test_things", "TestGood::test_two", "passed", 500.0),
            ("test_things", "TestMixed::test_a_fails", "failed", 1.0),
            ("other", "TestGood::test_one", "passed", 1.0),
        )
    }
    choice = flow.SuiteChoice(slice=10, files=4, seed="x")
    done = flow.run_suites(here, Path(here.tests), choice, theirs=theirs)
    assert {name: one.outcome for name, one in done.results.items()} == {"test_things.py::TestGood::test_one": "passed"}
    monkeypatch.setattr(
        run, "collect_tests", lambda *_: run.CollectionResult(SUITE, "test_things.py", tuple(theirs)[:2])
    )
    every = flow.run_suites(here, Path(here.tests), structs.replace(choice, every=True), theirs=theirs)
    assert set(every.results) == set(tuple(theirs)[:2])


def test_a_file_that_cannot_be_collected_is_a_failure_and_one_without_a_chosen_test_is_none(
    here: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(here.tests, "test_broken.py").write_text("import nothing_of_that_name\n")
    Path(here.tests, "test_other.py").write_text("def test_of_the_cpu(): pass\n")
    files = ("test_things.py", "test_broken.py", "test_other.py")
    monkeypatch.setattr(Target, "describe_torch", lambda _: ABOUT | {"available": True})
    monkeypatch.setattr(catalog, "select_suites", lambda _: (structs.replace(SUITE, files=files, select="TestGood"),))
    done = flow.run_suites(here, Path(here.tests), flow.SuiteChoice())
    found = {name.rpartition("::")[2]: one.outcome for name, one in done.results.items()}
    assert found == {"test_one": "passed", "test_two": "passed", "(collection)": "failed"}
    assert not cli_test_cuda._print_results(done.results, "gpu", None)


def test_a_file_that_can_be_collected_by_now_has_not_failed(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--compare` of its folder, on another machine, counted the failure of the first run, and `--record` wrote it."""
    Path(here.tests, "test_late.py").write_text("import late\ndef test_it(): pass\n")
    suites = (Suite("late", ("test_late.py", "test_things.py"), "it or two", process=50, seconds=60.0),)
    assert "test_late.py::(collection)" in run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites).results
    Path(here.tests, "late.py").touch()  # installed meanwhile
    done = run_here(here, monkeypatch, flow.SuiteChoice(), suites=suites)
    stored = flow.read_stored_run(here.folder)[0]
    assert (
        stored.results.keys() == done.results.keys() == {"test_late.py::test_it", "test_things.py::TestGood::test_two"}
    )


def results(**changed: Any) -> Mapping[str, SuiteResult]:
    ledger = {
        "exact": "1",
        "loose": "2",
        "launches": 3,
        "copies": 1,
        "sets": 0,
        "allocations": 2,
        "calls": 4,
        "graphs": 0,
    }
    rows = [
        SuiteResult("t.py::A::x", "passed", suite="s", ledger=ledger),
        SuiteResult("t.py::A::y", "skipped", suite="s"),
    ]
    return {row.id: structs.replace(row, **(changed if row.id.endswith("x") else {})) for row in rows}


def ledger(**changed: Any) -> dict[str, Any]:
    return {**(results()["t.py::A::x"].ledger or {}), **changed}


def test_two_builds_that_did_the_same() -> None:
    found = compare.compare_results(results(), results())
    assert (found.tests, found.outcomes, found.ledgers, found.exact, found.differences, found.ok) == (
        2,
        2,
        1,
        1,
        (),
        True,
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"outcome": "failed", "why": "AssertionError: 2 != 3"},
            ("outcome", "failed (AssertionError: 2 != 3)", "passed"),
        ),
        ({"ledger": ledger(loose="9", launches=4)}, ("ledger", "4 launches", "3 launches")),
        (
            {"ledger": ledger(loose="9")},
            (
                "ledger",
                "the same numbers, other arguments or order",
                "run both with --simcuda-entries to see them",
            ),
        ),
    ],
)
def test_an_outcome_or_a_launch_that_differs_is_found_by_name(changed: dict[str, Any], told: tuple[str, ...]) -> None:
    (fault,) = compare.compare_results(results(**changed), results()).differences
    assert (fault.test, (fault.what, fault.ours, fault.theirs)) == ("t.py::A::x", told)


def test_between_a_gpu_and_the_simulated_device_only_what_both_are_asked_for_counts() -> None:
    gpu = results(ledger=ledger(exact="7", loose="8", plain="p", device="gpu", calls=0))
    simulated = results(ledger=ledger(plain="p", device="simulated"))
    assert compare.compare_results(gpu, simulated).ok
    (fault,) = compare.compare_results(
        gpu, results(ledger=ledger(plain="q", device="simulated", launches=9))
    ).differences
    assert (fault.what, fault.theirs.split(",")[0]) == ("ledger", "9 launches")


def test_what_the_simulated_device_cannot_pass_is_no_difference_to_a_gpu_without_a_reason() -> None:
    gpu = results(ledger=ledger(device="gpu", plain="p"))
    simulated = results(
        outcome="failed", known="race: replays must interfere", ledger=ledger(device="simulated", plain="p")
    )
    for pair in ((gpu, simulated), (simulated, gpu)):
        (difference,) = compare.compare_results(*pair).differences
        assert difference.reason == "race: replays must interfere"
    other = results(outcome="passed", ledger=ledger(device="simulated"))
    assert not compare.compare_results(simulated, other).ok  # two builds on one kind of device
    died = results(outcome="died", known="race: replays must interfere", ledger=simulated["t.py::A::x"].ledger)
    assert not compare.compare_results(died, gpu).ok, "a crash has another reason"
    launched = results(known="race: replays must interfere", ledger=ledger(device="simulated", plain="q"))
    assert not compare.compare_results(gpu, launched).ok, "its outcome is known, not what it launches"


def test_two_runs_on_a_gpu_are_not_compared_by_bytes_that_nobody_sets() -> None:
    """Of one build the arguments differed in more than half of the tests."""
    runs = [results(ledger=ledger(exact=exact, loose=exact, plain="p", device="gpu")) for exact in "78"]
    found = compare.compare_results(*runs)
    assert (found.ok, found.exact, found.loose, found.plain) == (True, 0, 1, True)


def test_ledgers_that_leave_out_different_bytes_are_not_compared() -> None:
    """They differ, or are the same, for a reason that is no build's: one was taken before the list grew."""
    with pytest.raises(DecoupleError, match=r"t\.py::A::x"):
        compare.compare_results(results(ledger=ledger(unset="2")), results(ledger=ledger(unset="1")))
    assert compare.compare_results(results(ledger=ledger(unset="2")), results(ledger=ledger(unset="2"))).ok


def test_ledgers_of_two_formats_are_not_compared_and_a_comparison_says_of_which_they_are() -> None:
    """An entry of the newer one says more, so they differ for no reason of a build's; with a real GPU's, too."""
    for device in ("simulated", "gpu"):
        with pytest.raises(DecoupleError, match=r"t\.py::A::x.*two formats \(1 and 2\)"):
            compare.compare_results(results(ledger=ledger(format=2, device=device)), results(ledger=ledger()))
    assert compare.compare_results(results(ledger=ledger(format=2)), results(ledger=ledger(format=2))).format == 2
    assert compare.compare_results(results(), results()).format == 1  # as they were before one was named


def test_nothing_in_common_is_not_a_pass() -> None:
    assert not compare.compare_results(results(), {}).ok


def test_tests_that_did_not_begin_are_not_as_the_other_builds(here: Target) -> None:
    """What ended each process at its start, on both builds, was "2 died; 0 of 2 not as official" and "holds"."""
    Path(here.tests, "test_things.py").write_text("import os\nos._exit(3)\n")
    collected = run.CollectionResult(SUITE, "test_things.py", ("test_things.py::test_a", "test_things.py::test_b"))
    kept = ResultStore(here.folder, ABOUT, "d")
    run.run_tests(here, [collected], kept, retries=0)
    found = compare.compare_results(kept.results, kept.results)
    assert (found.tests, found.outcomes, found.ok) == (2, 0, False)
    assert not cli_test_cuda._print_results(kept.results, "gpu", None, kept.results)
    store.write_packed(kept.results.values(), here.folder / "small.xz", ledgers=False)
    small = store.read_results(here.folder / "small.xz")
    assert compare.compare_results(small, small).outcomes == 0, "a file of outcomes says it, too"


def test_a_known_difference_has_its_reason_and_only_between_its_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    row = compare.KnownDifference(re.compile("A::x$"), ("outcome",), ("built/official",), "no MAGMA")
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    failed = results(outcome="failed")
    assert compare.compare_results(failed, results(), "built/official").ok
    assert not compare.compare_results(failed, results(), "monolith/official").ok


@pytest.mark.parametrize(("sides", "known"), [("a/b", True), ("built-cu118/built", True), ("simulated", False)])
def test_a_known_difference_can_be_of_any_two_builds(monkeypatch: pytest.MonkeyPatch, sides: str, known: bool) -> None:
    row = compare.KnownDifference(re.compile("A::x$"), ("outcome",), ("*/*",), "chance")
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    assert compare.compare_results(results(outcome="failed"), results(), sides).ok == known


@pytest.mark.parametrize("other", ["official", "official.xz", "../kept/official.xz", "runs/official.jsonl"])
def test_a_known_difference_holds_for_a_file_of_that_build(other: str) -> None:
    """With the file of `--keep official.xz` each counted as unknown, and a folder's name made one known."""
    assert flow.name_sides("monolith", other) == "monolith/official"


def test_a_folder_of_results_says_of_which_build_they_are(tmp_path: Path) -> None:
    """With `--against suites/official-gpu` no difference was known, and the record named no build of that label."""
    folder = store_run(tmp_path / "official", {"torch": range(1)}, 1).rename(tmp_path / "official-gpu")
    assert flow.name_sides("monolith", str(folder)) == "monolith/official"


@pytest.mark.parametrize(("why", "known"), [("no MAGMA library detected", True), ("no cuDNN", False)])
def test_a_known_difference_can_be_what_one_build_says_of_itself(
    monkeypatch: pytest.MonkeyPatch, why: str, known: bool
) -> None:
    row = compare.KnownDifference(
        re.compile(""), ("outcome",), ("built/official",), "made without", said=re.compile("no MAGMA")
    )
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    assert compare.compare_results(results(outcome="skipped", why=why), results(), "built/official").ok == known


@pytest.mark.parametrize(
    ("label", "why", "known"), [("hip", "no amdsmi", True), ("hip", "?", False), ("built", "no amdsmi", False)]
)
def test_a_failure_can_be_known_of_one_torch_on_a_device(
    monkeypatch: pytest.MonkeyPatch, label: str, why: str, known: bool
) -> None:
    row = compare.KnownDifference(
        re.compile("A::x$"), ("failure",), ("hip-simulated",), "a package is missing", said=re.compile("amdsmi")
    )
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    assert cli_test_cuda._print_results(results(outcome="failed", why=why), "simulated", None, label=label) is known


@pytest.mark.parametrize("said", [None, re.compile("signal 11")], ids=["whatever it says", "of a crash"])
def test_a_crash_is_known_only_where_the_row_is_of_one(
    monkeypatch: pytest.MonkeyPatch, said: re.Pattern[str] | None
) -> None:
    """A test that ended its process was known by "NumPy 2.4 has no trapz any more", as a failure and a difference."""
    row = compare.KnownDifference(re.compile("A::x$"), ("failure", "outcome"), ("simulated", "*/*"), "NumPy", said)
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    died = results(outcome="died", why="its process ended by signal 11")
    assert cli_test_cuda._print_results(died, "simulated", None) is bool(said)
    assert compare.compare_results(died, results(), "built/official").ok is bool(said)


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("test_linalg.py::T::test_lu", "AssertionError: wrong value, and no MAGMA library detected"),
        ("test_binary_ufuncs.py::T::test_trapezoid_cuda", "AssertionError: Tensor-likes are not close!"),
        ("test_torch.py::T::test_normal_kstest_cuda_float32", "AssertionError: False is not true"),
    ],
)
def test_a_failure_of_another_kind_is_not_known(test: str, why: str) -> None:
    """What upstream skips, or another NumPy or SciPy lets fail, was known however it failed."""
    failed = store.SuiteResult(test, "failed", why=why)
    assert not compare.find_failure_reason(failed, "built", "simulated")
    passed = structs.replace(failed, outcome="passed", why="")
    assert not compare.compare_results({test: failed}, {test: passed}, "built/official").ok


def test_results_are_kept_as_one_file(tmp_path: Path) -> None:
    store.write_packed(results().values(), tmp_path / "kept.xz")
    assert store.read_results(tmp_path / "kept.xz") == results()
    store.write_packed(results().values(), tmp_path / "small.xz", ledgers=False)
    small = store.read_results(tmp_path / "small.xz")
    assert {name: one.outcome for name, one in small.items()} == {"t.py::A::x": "passed", "t.py::A::y": "skipped"}
    assert compare.compare_results(results(), small).ledgers == 0
    for damaged in ("hello", '{"id": "cut o\n{"id": "t", "outcome": "passed"}\n'):
        (tmp_path / "other").write_text(damaged)
        with pytest.raises(DecoupleError, match="other"):
            store.read_results(tmp_path / "other")
    unbegun = SuiteResult("t.py::z", "died", why=f"{store.NOT_BEGUN}no torch")
    store.write_packed([unbegun], tmp_path / "small.xz", ledgers=False)
    assert not store.read_results(tmp_path / "small.xz")["t.py::z"].is_begun


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path, seen = tmp_path / "results.jsonl", list[SuiteResult]()
    reader = run._ResultReader(path, "suite", {"t.py::x"}, seen.append)
    row = json.dumps({"id": "t.py::x", "outcome": "passed"}) + "\n"
    path.write_text(row[:9])
    assert not reader.read_new_lines()
    path.write_text(row)
    assert reader.read_new_lines()
    assert [(result.id, result.outcome) for result in seen] == [("t.py::x", "passed")]


def test_the_official_wheels_outcomes_are_kept_and_are_of_known_suites() -> None:
    kept = store.read_results(store.find_official_results("2.6"))
    files = {file for suite in catalog.load_suites() for file in suite.files}
    assert len(kept) > 800 and {name.partition("::")[0] for name in kept} <= files
    assert {one.outcome for one in kept.values()} <= set(store.OUTCOMES)
    with pytest.raises(DecoupleError, match=r"official-1\.0\.xz"):
        store.find_official_results("1.0")


def test_what_the_plug_in_wrote_is_compared_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, outcome in (("ours", "failed"), ("theirs", "passed")):
        rows = [
            {"id": "t.py::A::x", "outcome": "started"},
            {"id": "test/t.py::A::x", "outcome": outcome, "seconds": 0.1, "why": None, "ledger": None},
        ]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = ["test-cuda", "2.6", "--compare", str(tmp_path / "ours")]
    assert cli.main([*words, str(tmp_path / "theirs")]) == 1
    assert "outcome: t.py::A::x: failed; theirs: passed" in capsys.readouterr().out
    assert cli.main([*words, str(tmp_path / "ours")]) == 0


def run_here(
    here: Target,
    monkeypatch: pytest.MonkeyPatch,
    choice: flow.SuiteChoice,
    theirs: Mapping[str, SuiteResult] | None = None,
    suites: tuple[Suite, ...] = (structs.replace(SUITE, select="TestGood"),),
    **options: Any,
) -> flow.SuiteRun:
    """The good tests of TESTS, or the ``suites``, as the command runs them; no torch has to be there."""
    monkeypatch.setattr(Target, "describe_torch", lambda _: ABOUT | {"available": True})
    monkeypatch.setattr(catalog, "select_suites", lambda _: suites)
    monkeypatch.setattr(catalog, "load_suites", lambda: suites)
    return flow.run_suites(here, Path(here.tests), choice, theirs=theirs, **options)


def results_of_theirs(*tests: str, suite: str = "things", file: str = "test_things.py") -> dict[str, SuiteResult]:
    ids = [f"{file}::{test}" for test in tests]
    return {test: SuiteResult(test, "passed", suite=suite) for test in ids}


def test_a_test_that_only_the_other_build_has_is_a_difference(
    here: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the figures nor the verdict told of it, so a build that lost tests was as good as the other."""
    theirs = results_of_theirs("TestGood::test_one", "TestGood::test_two", "TestGood::test_gone", "(collection)")
    done = run_here(here, monkeypatch, flow.SuiteChoice(), theirs)
    found = flow.compare_run(done, theirs, "built/official")
    assert (found.ok, found.tests, found.only_theirs, found.to_dict()["unexplained"]) == (False, 2, 1, 1)
    cli_test_cuda.print_comparison(found, "built", "official", None)
    told = capsys.readouterr().out
    assert "; 1 on official alone" in told
    assert "outcome: test_things.py::TestGood::test_gone: there is no such test; official: passed" in told
    row = compare.KnownDifference(re.compile("gone$"), ("outcome",), ("built/official",), "needs Python 3.14")
    monkeypatch.setattr(compare, "load_known", lambda: [row])
    assert flow.compare_run(done, theirs, "built/official").ok


@pytest.mark.parametrize("choice", [flow.SuiteChoice(), flow.SuiteChoice(words="one"), flow.SuiteChoice(slice=1)])
def test_what_the_other_build_ran_beyond_the_choice_is_no_difference(
    here: Target, monkeypatch: pytest.MonkeyPatch, choice: flow.SuiteChoice
) -> None:
    theirs = results_of_theirs("TestGood::test_one", "TestGood::test_two")
    theirs |= results_of_theirs("test_x", file="other.py", suite="other")  # a suite that was not asked for
    found = flow.compare_run(run_here(here, monkeypatch, choice, theirs), theirs, "built/official")
    assert (found.ok, found.only_theirs) == (True, 0)


def test_tests_that_a_time_limit_left_out_are_told_and_fewer_than_half_are_no_success(
    here: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_here(here, monkeypatch, flow.SuiteChoice(minutes=0.0))
    assert (done.results, len(done.unfinished), done.collected) == ({}, 2, 2)
    assert not cli_test_cuda._print_left_out(done, "simulated")
    assert "0 of 2 chosen tests have a result, fewer than half" in capsys.readouterr().out
    run_here(here, monkeypatch, flow.SuiteChoice(words="one"))
    half = run_here(here, monkeypatch, flow.SuiteChoice(minutes=0.0))
    assert cli_test_cuda._print_left_out(half, "simulated")
    assert "1 of 2 chosen tests have a result\n" in capsys.readouterr().out
    assert cli_test_cuda._print_left_out(run_here(here, monkeypatch, flow.SuiteChoice()), "simulated")
    assert capsys.readouterr().out == ""


def test_a_slice_of_what_another_build_ran_is_recorded_as_a_part_of_it(
    here: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = results_of_theirs("TestGood::test_one", "TestGood::test_two")
    done = run_here(here, monkeypatch, flow.SuiteChoice(slice=1, minutes=0.0), theirs)
    assert (len(done.unfinished), done.collected) == (1, 2)


@pytest.mark.parametrize("slice_", [None, 1])
def test_a_test_may_take_longer_for_who_has_patience(
    here: Target, monkeypatch: pytest.MonkeyPatch, slice_: int | None
) -> None:
    """Not with a slice against another build, which is what plain nox runs."""
    Path(here.tests, "test_slow.py").write_text("import time\ndef test_it(): time.sleep(3)\n")
    slow = Suite("slow", ("test_slow.py",), "", process=50, seconds=0.5)
    theirs = results_of_theirs("test_it", suite="slow", file="test_slow.py")
    choice = flow.SuiteChoice(slice=slice_, patience=60.0, retries=0)
    done = run_here(here, monkeypatch, choice, theirs, (slow,))
    (result,) = done.results.values()
    assert (result.outcome, done.whole) == ("passed", slice_ is None)


@pytest.mark.parametrize("choice", [{"jobs": -1}, {"slice": -5}, {"slice": 0}, {"files": -1}, {"retries": -1}])
def test_a_number_that_nobody_can_mean_is_refused(here: Target, choice: dict[str, Any]) -> None:
    """`--jobs -1` ended in a traceback, `--slice -5` ran all tests but five, `--slice 0` all."""
    (option,) = choice
    with pytest.raises(UsageError, match=f"--{option} {choice[option]}: at least") as said:
        flow.run_suites(here, Path(here.tests), flow.SuiteChoice(**choice))
    assert said.value.next_step == f"leave --{option} out"


def test_two_runs_do_not_write_to_one_folder(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ran the tests of both, and the second with --again deleted what the first had stored."""
    with hold_lock(here.folder), pytest.raises(DecoupleError, match="another run of test-cuda") as said:
        run_here(here, monkeypatch, flow.SuiteChoice(minutes=0.0, again=True))
    assert str(here.folder) in said.value.what and "--label" in str(said.value.next_step)
    run_here(here, monkeypatch, flow.SuiteChoice(minutes=0.0))


def test_what_two_runs_make_in_one_tree_is_hidden_from_git(here: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git status` told what the run left that ended last. A source, which may be a person's, stays and is named."""
    tree = Path(here.tests).parent
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    (tree / ".git/decouple").mkdir()
    (tree / ".git/decouple/state.json").touch()
    (tree / ".git/info/exclude").write_text("/test/\n/first/\n/second/\n")
    Path(here.tests, "test_files.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "def test_it():\n    Path('../begun').touch()\n"
        "    while not Path('../second/junit.xml').exists(): time.sleep(0.1)\n    Path('../last').touch()\n"
        "    Path('../mine.cu').touch()\n"
    )
    slow = Suite("files", ("test_files.py",), "", process=50, seconds=60.0)
    first, second = (structs.replace(here, folder=tree / name, work=str(tree / name)) for name in ("first", "second"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        said = list[str]()
        heard = Listener(said.append)
        run = pool.submit(run_here, first, monkeypatch, flow.SuiteChoice(), None, (slow,), listener=heard)
        while not (tree / "begun").exists() and not run.done():
            time.sleep(0.1)
        run_here(second, monkeypatch, flow.SuiteChoice(minutes=0.0))  # begins no test, and ends before the first
        (result,) = run.result().results.values()
    assert result.outcome == "passed" and (tree / "last").exists()
    git = ["git", "-C", str(tree), "status", "--porcelain"]
    assert subprocess.run(git, capture_output=True, text=True, check=True).stdout == "?? mine.cu\n"
    assert said == [f"suites: came to {tree} meanwhile, and counts from now on: mine.cu"]


def test_a_suite_that_needs_more_devices_is_named(
    here: Target, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two = structs.replace(SUITE, name="ranks", devices=2)
    done = run_here(here, monkeypatch, flow.SuiteChoice(minutes=0.0), suites=(SUITE, two))
    cli_test_cuda._print_left_out(done, "simulated")
    told = capsys.readouterr().out
    assert "ranks          left out: needs 2 devices (--devices 2), 1 there" in told and "things " not in told
    with pytest.raises(DecoupleError, match="ranks: needs 2 devices, 1 there") as said:
        run_here(structs.replace(here, device="simulated"), monkeypatch, flow.SuiteChoice(), suites=(two,))
    assert said.value.next_step == "--devices 2"


def test_skips_are_counted_by_their_reason() -> None:
    rows = [
        SuiteResult(f"t::{n}", "skipped", why=why) for n, why in enumerate(("Skipped: no SciPy\nx", "no SciPy", ""))
    ]
    assert compare.count_skip_reasons([*rows, SuiteResult("t::p", "passed")]) == {"no SciPy": 2, "no reason given": 1}


def test_junit_says_what_failed(tmp_path: Path) -> None:
    junit.write_junit(results(outcome="too slow", why="\x1b[1mnot done").values(), tmp_path / "junit.xml")
    (suite,) = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None and failure.get("type") == "too slow"


def test_the_suites_are_well_formed_and_a_wrong_name_names_them() -> None:
    assert len({suite.name for suite in catalog.load_suites()}) == len(catalog.load_suites())
    with pytest.raises(UsageError, match="cudaa"):
        catalog.select_suites(["cudaa"])


def test_a_suite_that_is_named_twice_runs_once() -> None:
    """Its tests ran twice at the same time, and were recorded as twice as many."""
    assert [suite.name for suite in catalog.select_suites(["torch", "cuda", "torch"])] == ["torch", "cuda"]


@pytest.mark.parametrize(
    ("words", "said"), [(["cudaa"], "no suite cudaa"), (["--jobs", "0"], "--jobs 0: at least 1")], ids=["suite", "jobs"]
)
def test_a_slip_is_told_before_the_torch_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """A suite that is none was told minutes later, and `--jobs 0` took all processors."""
    monkeypatch.setattr(flow, "open_target", lambda *_: pytest.fail("the torch was opened"))
    assert cli.main(["test-cuda", "2.6", *words]) == 2
    assert said in capsys.readouterr().err


def test_as_many_processes_run_as_this_one_may_use_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with two of 64, 64 at a time took the memory, and each test too long."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert (flow.count_jobs("simulated"), flow.count_jobs("gpu")) == (2, 1)


def test_a_suite_without_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DecoupleError, match=r"test_things\.py"):
        SUITE.find_files(tmp_path)


@pytest.mark.parametrize("folder", ["_tensor", "tensor"], ids=["2.6", "2.7"])
def test_a_suite_is_found_where_later_releases_have_it(tmp_path: Path, folder: str) -> None:
    """From 2.7 on, test-cuda without a suite's name ended with the question whether it was upstream's test/."""
    file = f"distributed/{folder}/test_dtensor.py"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    (suite,) = catalog.select_suites(["dtensor"])
    assert suite.find_files(tmp_path) == [file] and suite.has_file(file)


def test_bytes_that_nobody_sets_are_left_out_where_they_were_learned() -> None:
    assert simulated_device.select_unset_table("2.6", "/in/there") == (
        "--unset",
        "/in/there/scripts/decouple/suites/unset-2.6.xz",
    )
    assert simulated_device.select_unset_table("2.99", "/in/there") == ()
    gaps = unset_bytes.read_table(Path(simulated_device.__file__).with_name("unset-2.6.xz"))
    assert len(gaps) > 1000 and all(len(kernel) == 16 and int(kernel, 16) for kernel in gaps)


def test_a_torch_that_was_not_built_names_its_own_build(tmp_path: Path) -> None:
    words = {"stock": "--stage 2 --kernels monolith", "smoke": "smoke-2.6", "smoke-hip": "smoke-hip-2.6"}
    words["hip"] = "--toolkit rocm --core stock"
    for word, command in {**words, "built": "build-2.6"}.items():
        torch = flow.TorchChoice(word, word, "simulated", tmp_path, tmp_path)
        with pytest.raises(UsageError) as failed, flow.open_target(torch, flow.WorkRequest(tmp_path, "2.6")):
            pass
        assert command in str(failed.value.next_step)


@pytest.mark.parametrize("word", ["smoke", "hip", "stock", "monolith", "built"])
def test_results_of_each_torch_of_the_root_are_found_by_their_label(word: str, tmp_path: Path) -> None:
    """They lie beside its build: `--against smoke` looked beside the usual one alone."""
    work = WorkRequest(tmp_path, "2.6")
    folder = flow.IN_ROOT[word].places(work).verify / "suites/mine-simulated"
    ResultStore(folder, ABOUT, "d").add([SuiteResult("t.py::x", "passed")])
    ours = flow.choose_torch(work, "built", device="simulated")
    assert set(flow.read_stored_results(ours, "mine", work)) == {"t.py::x"}
    with pytest.raises(DecoupleError, match="verify/suites/nobody-simulated"):
        flow.read_stored_results(ours, "nobody", work)


@pytest.mark.parametrize(("device", "told"), [("simulated", 0), ("gpu", 1)])
def test_on_a_gpu_it_is_said_that_the_official_outcomes_are_of_another_device(
    tmp_path: Path, device: str, told: int
) -> None:
    """Two tests that the simulated device cannot pass were "differences, not known"."""
    torch, warned = flow.TorchChoice("python", "mine", device, tmp_path, tmp_path), list[str]()
    flow.read_stored_results(torch, "official", WorkRequest(tmp_path, "2.6"), listener=Listener(warn=warned.append))
    assert len(warned) == told


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    """`test-cuda 2.6 cuda --against built` was: "0 of 207 not as built"."""
    work = WorkRequest(tmp_path, "2.6")
    ours = flow.choose_torch(work, "built", device="simulated")
    own = ours.results / ours.name
    ResultStore(own, ABOUT, "d").add([SuiteResult("t.py::x", "passed")])
    for other in ("built", str(own), str(own / "results.jsonl")):
        with pytest.raises(UsageError, match="has this run's own results"):
            flow.read_stored_results(ours, other, work, own)
    assert set(flow.read_stored_results(ours, "built", work)) == {"t.py::x"}  # of --again: those of the run before


def test_a_run_that_failed_before_its_first_test_hides_no_results(here: Target, tmp_path: Path) -> None:
    """Its empty folder was taken for those of the official wheel, and for those beside a torch's own build."""
    work = WorkRequest(tmp_path, "2.6")
    ours = flow.choose_torch(work, "built", device="simulated")
    beside = flow.IN_ROOT["smoke"].places(work).verify / "suites/mine-simulated"
    ResultStore(beside, ABOUT, "d").add([SuiteResult("t.py::x", "passed")])
    for label in ("official", "mine"):
        failed = structs.replace(here, folder=ours.results / f"{label}-simulated")
        with pytest.raises(DecoupleError, match="torch cannot be asked"):
            flow.run_suites(failed, Path(here.tests), flow.SuiteChoice())
    assert len(flow.read_stored_results(ours, "official", work)) > 800
    assert set(flow.read_stored_results(ours, "mine", work)) == {"t.py::x"}
    with pytest.raises(DecoupleError, match=r"mine-simulated/results\.jsonl: no results"):
        flow.read_stored_results(ours, str(ours.results / "mine-simulated"), work)


@pytest.mark.parametrize(("words", "alone"), [(["test-cuda"], set[str]()), (["try", "patches"], {"cpu"})])
def test_help_names_each_torch_that_the_command_takes(
    words: list[str], alone: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main([*words, "--help"])
    shown = re.findall(r"--torch\s+(\S+)", capsys.readouterr().out)[-1]
    assert set(shown.split("|")) == {word for word in flow.IN_ROOT if word != "cpu"} | alone | {"PYTHON"}


def test_a_label_is_one_name(tmp_path: Path) -> None:
    """In the Debian root no test of `--label run/2` could write its result: the folder had another name there."""
    with pytest.raises(UsageError, match="--label run/2: has a /") as said:
        flow.choose_torch(WorkRequest(tmp_path, "2.6"), "built", label="run/2", device="simulated")
    assert said.value.next_step == "--label run-2"
    with pytest.raises(UsageError, match="--label run/2: has a /"):
        try_patches(PatchTrialRequest(find_project(), "2.6", label="run/2", device="simulated"))


@pytest.mark.parametrize("option", ["results", "tests"])
def test_a_torch_of_the_debian_root_takes_no_folder_of_the_machine(option: str, tmp_path: Path) -> None:
    """It sees the build's folders alone, and would have run other tests, or kept results elsewhere, without a word."""
    work = WorkRequest(tmp_path, "2.6")
    given: dict[str, Any] = {option: tmp_path}
    with pytest.raises(
        UsageError, match=f"--{option} {re.escape(str(tmp_path))}: monolith runs in the Debian root"
    ) as said:
        flow.choose_torch(work, "monolith", device="simulated", **given)
    assert "--torch PYTHON" in str(said.value.next_step)
    (tmp_path / "run_test.py").touch()
    chosen = flow.choose_torch(work, sys.executable, device="simulated", **{"tests": tmp_path, **given})
    assert getattr(chosen, option) == tmp_path
