"""Write a line of JSON per test, with its outcome and its ledger.

It is a pytest plug-in (``-p simcuda.plugin``). ``--simcuda-results FILE`` names the file, which lines are appended to;
``--simcuda-entries`` adds every entry of the ledger. ``--simcuda-only FILE`` runs the tests whose ids it holds, a line
each; one that is not collected has failed. Works without the simulated device as well: on a GPU under ``python -m
simcuda record`` the ledger is that of the recorder, elsewhere it is null. A line::

    {"id": "test_cuda.py::TestCuda::test_x", "outcome": "passed", "seconds": 0.1, "why": null,
     "known": null,
     "ledger": {"exact": "…", "loose": "…", "launches": 3, "copies": 1, …}, "entries": [["copy","HD",1024,0,[0,512]]]}

``known`` is the reason, where ``known_failures.toml`` says that the test cannot pass on the simulated device; one that
is too slow for it, or would wait for ever, is skipped there. A test that ended the process has a line
``{"id": …, "outcome": "started"}`` and no other. The ledger holds those of the test's processes, too: ranks, workers.
A failed test of several processes has none, since the harness ends the others when one fails.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import re
import stat
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simcuda import harness, known_failures
from simcuda.ledger import Ledger
from simcuda.processes import ProcessFolder

_RANK_FAILED = re.compile(r"Process \d+ exited with error code \d+ and exception:\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("simcuda")
    group.addoption("--simcuda-results", type=Path, help="append a line of JSON per test to this file")
    group.addoption("--simcuda-only", type=Path, help="run only the tests whose ids stand in this file, a line each")
    group.addoption("--simcuda-entries", action="store_true", help="with the ledger's entries, up to 64 MiB a test")


def pytest_configure(config: pytest.Config) -> None:
    """Record only where a file was named. Raises UsageError for an option without it."""
    if config.getoption("--simcuda-results"):
        config.pluginmanager.register(Recorder(config), "simcuda-recorder")
    elif config.getoption("--simcuda-only") or config.getoption("--simcuda-entries"):
        raise pytest.UsageError("--simcuda-only and --simcuda-entries need --simcuda-results FILE")


class Recorder:
    """Writes the lines; it is safe with pytest-xdist.

    A line is one write to a file opened for appending.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.path: Path = config.getoption("--simcuda-results").resolve()
        self.entries: bool = config.getoption("--simcuda-entries")
        self.only: dict[str, None] | None = None
        if only := config.getoption("--simcuda-only"):
            try:
                self.only = dict.fromkeys(filter(None, only.read_text(encoding="utf-8").split("\n")))
            except (OSError, ValueError) as error:
                raise pytest.UsageError(f"--simcuda-only {only}: {error}") from None
            harness.restrict_operators(self.only, config.rootpath)
            harness.note_needed_devices(self.only, config.rootpath)
            harness.fork_ranks(self.only, config.rootpath)
        self.ledger = Ledger.find_loaded()
        self.known = (
            known_failures.load_known_failures()
            if self.ledger and self.ledger.read_totals().device == "simulated"
            else ()
        )
        self.processes = (
            ProcessFolder(self.path.with_name(f"{self.path.name}.{os.getpid()}"), entries=self.entries)
            if self.ledger
            else None
        )
        self.current: dict[str, Any] = {}
        self.failure_text = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the tests that were asked for, and name those that there are not.

        Ids on pytest's command line would do the same, but one that is not there ends pytest before the first test.
        """
        if self.only is None:
            return
        items[:] = [item for item in items if item.nodeid in self.only]
        present = {item.nodeid for item in items}
        for name in self.only.keys() - present:
            self.write_row(
                {"id": name, "outcome": "failed", "seconds": 0.0, "why": "there is no such test", "ledger": None}
            )

    def pytest_collection_finish(self) -> None:
        """Set the objects of imports and of the collection aside.

        Every capture of a graph collects garbage first, and would look through half a million of them (0.3 s).
        """
        gc.collect()
        gc.freeze()
        harness.omit_source_lines()

    def pytest_unconfigure(self) -> None:
        """Leave nothing but the results."""
        if self.processes:
            self.processes.remove()

    def write_row(self, row: dict[str, Any]) -> None:
        """Append one line."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags, 0o666), "a", encoding="utf-8") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
                raise OSError(errno.ELOOP, "no file of its own, but a link", str(self.path))
            file.write(json.dumps(row) + "\n")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around setup, call and teardown of one test."""
        self.current = {"id": item.nodeid, "outcome": "started", "seconds": 0.0, "why": None, "ledger": None}
        self.failure_text = ""
        self.write_row({"id": item.nodeid, "outcome": "started"})
        collects = gc.isenabled()
        if self.ledger:
            gc.disable()  # so that a test's memory is given back when its program does so, or asks for a collection
            empty_caches()
            self.ledger.reset(keep_entries=self.entries)
        if self.processes:
            self.processes.clear()
        yield
        if collects:
            gc.enable()
        self.current["known"] = known_failures.find_reason(item.nodeid, self.known, self.failure_text)
        if self.ledger and self.processes:
            totals = self.ledger.read_totals()
            others = list(self.processes.read_ledgers())
            for other, _ in others:
                totals = totals.add_process(other)
            whole = not others or self.current["outcome"] != "failed"
            self.current["ledger"] = totals.as_dict() if whole else None
            if self.entries:
                self.current["entries"] = [json.loads(entry) for entry in self.ledger.read_entries()]
                self.current["processes"] = [entries for _, entries in others]
        self.write_row(self.current)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip what would take minutes or never end.

        The processor computes what a GPU has at once.
        """
        why = known_failures.find_reason(item.nodeid, self.known)
        if why and why.startswith(known_failures.NOT_RUN):
            pytest.skip(f"on the simulated device: {why}")
        needed = harness.count_needed_devices(getattr(item, "function", None))
        if needed and needed > sys.modules["torch"].cuda.device_count():
            pytest.skip(f"Need at least {needed} CUDA devices")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        """Note the outcome: of the call, or of the first part that failed."""
        result = yield
        report: pytest.TestReport = result.get_result()  # type: ignore[attr-defined]
        self.current["seconds"] = round(self.current["seconds"] + call.duration, 3)
        ended = report.when == "call" or report.outcome != "passed"
        if ended and self.current["outcome"] != "failed":  # behind a failed subtest comes the test's own "passed"
            expected = getattr(report, "wasxfail", None)
            self.current["outcome"] = "xfailed" if expected is not None and report.skipped else report.outcome
            if expected is not None and report.passed:  # pytest's XPASS, of a mark that is not strict
                self.current["why"] = ": ".join(filter(None, ["passed, though marked to fail", expected]))[:400]
            if report.outcome != "passed":
                message = read_reason(report)
                self.failure_text = "\n".join([message, *(list_causes(call.excinfo.value) if call.excinfo else ())])
                self.current["why"] = "\n".join(filter(None, [find_rank_error(message), message]))[:400]
        if call.excinfo and report.outcome == "failed":
            release_frames(call.excinfo.value)


def empty_caches() -> None:
    """Have the allocators give back what the tests before left in their caches.

    One small segment stays. Whichever test empties a cache first frees it, and that would stand in its ledger: how much
    it is, hangs on the order and the timing of others. After a sticky error nothing can be freed. The segment is for
    tests that tell a graph's pool from the usual one, by whatever is there when they begin. A memory history that a
    test left on ends: what is given back here would stand in the snapshots of the tests behind it.
    """
    for _ in range(4):  # what a node in C++ holds is garbage when the node is gone
        if not gc.collect():
            break
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):
            if torch._C._cuda_isHistoryEnabled():
                torch.cuda.memory._record_memory_history(None)
            torch.cuda.empty_cache()
            torch._C._host_emptyCache()
            torch.empty(1, device="cuda")


def release_frames(error: BaseException | None) -> None:
    """Let go of what a failed test's frames hold.

    pytest keeps the exception, its traceback the frames, and those the tensors: memory that the tests behind it measure
    and look through.
    """
    while error:
        traceback.clear_frames(error.__traceback__)
        for frame, _ in traceback.walk_tb(error.__traceback__):
            frame.f_locals  # noqa: B018 - before Python 3.13 a copy for those who asked, made anew by asking again
        error = error.__context__


def list_causes(error: BaseException) -> Iterator[str]:
    """Yield what the exceptions said behind which another one was raised."""
    while cause := error.__cause__ or error.__context__:
        yield str(cause)
        error = cause


def find_rank_error(message: str) -> str:
    """Return what the first failed rank raised.

    Empty where the message is not the one of upstream's harness with the tracebacks of ranks.
    """
    rank = _RANK_FAILED.search(message)
    if rank is None:
        return ""
    traceback_text = _RANK_FAILED.split(message[rank.end() :])[0]
    lines = traceback_text.rpartition('\n  File "')[2].splitlines()[1:]
    return next((line for line in lines if line and not line[0].isspace()), "")


def read_reason(report: pytest.TestReport) -> str:
    """Return the message of what went wrong, or why it was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr)
