"""Upstream's tests on two builds: outcomes are read from pytest's report and compared test by test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from decouple.base.errors import DecoupleError
from decouple.build import bare_systems
from decouple.verify.upstream_tests import (
    UpstreamSuite,
    check_outcomes,
    compare_outcomes,
    load_suites,
    parse_report,
    run_suites,
)
from decouple.verify.venvs import TorchEnvironment

TESTS = """
import pytest

class TestThings:
    def test_good(self): pass
    def test_bad(self): assert False
    @pytest.mark.skip
    def test_later(self): pass
"""


def run(folder: Path, *suites: UpstreamSuite) -> dict[str, str]:
    return run_suites(here(folder), str(folder), suites, folder / "tests.log")


def here(folder: Path) -> TorchEnvironment:
    return TorchEnvironment("here", (sys.executable,), folder, str(folder))


def test_outcomes_of_a_real_run(tmp_path: Path) -> None:
    (tmp_path / "test_things.py").write_text(TESTS)
    assert run(tmp_path, UpstreamSuite("test_things.py", "")) == {
        "test_things.py::TestThings::test_good": "passed",
        "test_things.py::TestThings::test_bad": "failed",
        "test_things.py::TestThings::test_later": "skipped",
    }


def test_a_suite_that_runs_nothing_is_an_error_and_not_a_pass(tmp_path: Path) -> None:
    (tmp_path / "test_things.py").write_text(TESTS)
    with pytest.raises(DecoupleError, match=r"test_things\.py on here"):
        run(tmp_path, UpstreamSuite("test_things.py", "nothing_is_called_so"))


def test_a_file_that_does_not_import_is_an_error_and_not_as_on_the_stock_build(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import a_module_that_is_not_there\n")
    with pytest.raises(DecoupleError, match=r"test_broken\.py on here: no test ran: E .*a_module_that_is_not_there"):
        run(tmp_path, UpstreamSuite("test_broken.py", ""))
    said = (tmp_path / "tests.log").read_text()
    assert said.startswith("test_broken.py on here:") and "No module named 'a_module_that_is_not_there'" in said


def test_a_file_that_skips_itself_as_a_whole_ran_no_test(tmp_path: Path) -> None:
    (tmp_path / "test_away.py").write_text("import unittest\nraise unittest.SkipTest('not here')\n")
    with pytest.raises(DecoupleError, match=r"test_away\.py on here: no test ran: 1 skipped"):
        run(tmp_path, UpstreamSuite("test_away.py", ""))


def test_a_file_that_breaks_off_after_a_test_is_an_error(tmp_path: Path) -> None:
    text = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.exit('enough', 3)\ndef test_three(): pass\n"
    (tmp_path / "test_half.py").write_text(text)
    with pytest.raises(DecoupleError, match=r"test_half\.py on here: the tests broke off: .*enough"):
        run(tmp_path, UpstreamSuite("test_half.py", ""))


def test_a_file_that_ends_by_a_signal_after_its_tests_is_named_beside_them(tmp_path: Path) -> None:
    crash = "import atexit, os, signal\natexit.register(lambda: os.kill(os.getpid(), signal.SIGSEGV))\n"
    (tmp_path / "test_end.py").write_text(f"{crash}def test_one(): pass\n")
    seen = run(tmp_path, UpstreamSuite("test_end.py", ""))
    assert seen == {"test_end.py::test_end::test_one": "passed", "test_end.py": "SIGSEGV"}
    assert not check_outcomes(seen, {}).passed and check_outcomes(seen, {"test_end.py": "a reason"}).passed
    assert not compare_outcomes(seen, {"test_end.py::test_end::test_one": "passed"}).passed


def test_a_file_that_ends_by_a_signal_is_named_and_the_others_run(tmp_path: Path) -> None:
    """Upstream's test_jit_fuser_te.py does so on Ubuntu 22.04, with the official wheel too."""
    (tmp_path / "test_crash.py").write_text("import ctypes\ndef test_one(): ctypes.string_at(0)\n")
    (tmp_path / "test_things.py").write_text("def test_two(): pass\n")
    suites = [UpstreamSuite(name, "") for name in ("test_crash.py", "test_things.py")]
    seen = run(tmp_path, *suites)
    assert seen == {"test_crash.py": "SIGSEGV", "test_things.py::test_things::test_two": "passed"}
    new, known = (check_outcomes(seen, {"test_crash.py": why}) for why in ("", "a reason"))
    assert (new.passed, new.observed) == (False, "1 passed, 0 skipped, 1 failed\n       test_crash.py ended by SIGSEGV")
    assert known.passed and "SIGSEGV, with the official wheel too: a reason" in known.observed
    assert check_outcomes(seen | {"test_crash.py::X::y": "failed"}, {"test_crash.py": "a reason"}).passed is False
    assert check_outcomes({"test_crash.py": "SIGSEGV"}, {"test_crash.py": "a reason"}).passed is False, "nothing passed"
    assert (
        compare_outcomes(seen, seen).passed and not compare_outcomes(seen, {**seen, "test_crash.py": "SIGABRT"}).passed
    )


def test_what_passes_on_stock_must_pass_on_ours() -> None:
    stock = {"a": "passed", "b": "skipped", "c": "failed"}
    assert compare_outcomes(stock, stock).passed
    worse = compare_outcomes(stock | {"a": "failed"}, stock)
    assert not worse.passed
    assert "a (passed on the stock build, failed on ours)" in worse.observed
    assert not compare_outcomes({"b": "skipped", "c": "failed"}, stock).passed  # a test is gone
    assert not compare_outcomes({}, {}).passed


def test_the_report_is_junit() -> None:
    report = '<testsuites><testsuite><testcase classname="test_x.TestX" name="test_y"/></testsuite></testsuites>'
    assert parse_report(report, "test_x.py") == {"test_x.py::TestX::test_y": "passed"}


def test_each_suite_is_a_file_of_upstream() -> None:
    assert all(suite.file.startswith("test_") for suite in load_suites())
    assert {name for suite in load_suites() for name in suite.crashes} <= {
        system.name for system in bare_systems.read_systems()
    }
