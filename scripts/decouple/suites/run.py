"""Run tests: collect, run in separate processes, retry alone, store each result.

As upstream's ``run_test.py`` does: a failure is tried again in a process of its own, and one that then passes is flaky.
A test that ends its process, or does not end, is named; those behind it run in another process. A process that crashes
behind its tests has a result of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from decouple.base import program_output
from decouple.base.files import create_file, remove_folder
from decouple.base.progress import SILENT, Progress
from decouple.suites.catalog import Suite
from decouple.suites.shards import Shard, cut_shards
from decouple.suites.store import COLLECTION, NOT_BEGUN, PROCESS_END, STAND_INS, ResultStore, SuiteResult
from decouple.suites.target import Target

#: Seconds that a process may take before its first test, or four times what a test may take: torch is imported and the
#: whole file collected again. It may take as long to end.
START = 240.0
_PYTEST = ("-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider", "--no-header")
_BAD = {"failed", "died", "too slow"}
_PASSED = {"passed", "xfailed"}
_NOT_DONE = "not done in"
_GOOD_ENDS = {0, 1, 5}  # exit statuses of pytest: all passed, some failed, there is none of the tests
_TIMEOUTS = ("Timeout", "terminated or timed out after")  # the second: upstream's harness, of a rank that waits


class CollectionResult(Struct, frozen=True):
    """The tests that pytest collected from one file.

    ``why`` says why there is none, ``broken`` that pytest could not collect.
    """

    suite: Suite
    file: str
    ids: tuple[str, ...]
    why: str = ""
    broken: bool = False

    @property
    def name(self) -> str:
        """The id that stands for the file itself among the ids of its tests."""
        return f"{self.file}{COLLECTION}"

    @property
    def end_name(self) -> str:
        """The id that stands for processes with its tests that ended badly."""
        return f"{self.file}{PROCESS_END}"


def collect_tests(target: Target, suite: Suite, file: str) -> CollectionResult:
    """Ask pytest which tests of ``file`` the suite selects, on ``target``."""
    argv = [
        *_PYTEST,
        "--tb=short",
        "--rootdir",
        target.tests,
        "--collect-only",
        "-k",
        suite.select,
        f"{target.tests}/{file}",
    ]
    try:
        process = program_output.run_program(target.argv(argv), timeout=4 * START)
    except subprocess.TimeoutExpired:
        return CollectionResult(suite, file, (), f"not collected in {4 * START:.0f} seconds", broken=True)
    ids = tuple(line for line in process.stdout.splitlines() if line.startswith(f"{file}::"))
    if ids or process.returncode in (0, 5):  # 5: no test was chosen
        return CollectionResult(suite, file, ids, "" if ids else "none of its tests is chosen")
    output_lines = [line for line in (process.stdout + process.stderr).splitlines() if line.strip()]
    error_lines = (
        [line for line in output_lines if line.startswith("E  ")]
        or output_lines[-1:]
        or [f"exit status {process.returncode}"]
    )
    return CollectionResult(suite, file, (), error_lines[-1].removeprefix("E  ").strip(), broken=True)


def has_more_time(result: SuiteResult, suite: Suite) -> bool:
    """Return whether a test that was too slow may now take longer (``--patience``)."""
    return result.outcome == "too slow" and result.why.startswith(_NOT_DONE) and result.seconds < suite.seconds


def list_lacking(collected: Sequence[CollectionResult], theirs: Mapping[str, SuiteResult]) -> list[str]:
    """Return the tests that another build has in these suites and this one has not.

    ``collected`` are all files of the suites. What ``theirs`` has of other suites does not count.
    """
    suites = {collection.suite.name for collection in collected}
    ours = {test for collection in collected for test in collection.ids}
    return sorted(
        test
        for test, result in theirs.items()
        if result.suite in suites and test not in ours and not test.endswith(STAND_INS)
    )


def run_tests(
    target: Target,
    collected: Sequence[CollectionResult],
    store: ResultStore,
    *,
    only: Callable[[str], bool] = lambda _: True,
    expected: Callable[[SuiteResult], bool] = lambda _: False,
    jobs: int = 1,
    retries: int = 1,
    minutes: float | None = None,
    progress: Progress = SILENT,
) -> int:
    """Run the tests without a stored result, and return how many were run.

    ``only`` selects tests, ``expected`` says which failure is known: it is not tried again. With ``minutes`` no new
    process starts after that time; the next call continues, and tries again what failed and was not tried again, or
    what was too slow and may take longer now.
    """
    began = time.monotonic()
    shards: list[tuple[Suite, Shard]] = []
    failed: list[tuple[Suite, Shard]] = []

    def is_unsettled(result: SuiteResult) -> bool:
        return result.outcome in _BAD and not result.known and not expected(result) and result.attempts <= retries

    for collection in collected:
        suite, file = collection.suite, collection.file
        new, again = list[str](), list[str]()
        for test in filter(only, collection.ids):
            stored = store.results.get(test)
            if stored is None or has_more_time(stored, suite):
                new.append(test)
            elif is_unsettled(stored):
                again.append(test)
        shards += [(suite, shard) for shard in cut_shards(suite.name, file, new, suite.process)]
        alone = cut_shards(suite.name, file, again, 1)
        failed += [(suite, replace(shard, name=f"{shard.name}-again")) for shard in alone]
        if collection.broken:
            store.add([SuiteResult(collection.name, "failed", why=collection.why, suite=collection.suite.name)])
    total = sum(len(shard.ids) for _, shard in shards + failed)
    progress.start(f"CUDA suites on {target.label} ({target.device})", float(total), "tests")
    lock = threading.Lock()
    ran = 0

    stopped = threading.Event()

    def is_late() -> bool:
        return stopped.is_set() or (minutes is not None and time.monotonic() - began > 60 * minutes)

    def store_result(result: SuiteResult) -> None:
        nonlocal ran
        with lock:
            store.add([result])
            ran += 1
            progress.advance()

    def store_end(result: SuiteResult) -> None:
        with lock:
            store.add([result])

    def run_shard(task: tuple[Suite, Shard]) -> None:
        suite, shard = task
        remaining, number = shard.ids, 0
        while remaining and not is_late():
            number += 1
            part = replace(shard, ids=remaining, name=f"{shard.name}.{number}")
            results = run_process(target, suite, part, store_result, store_end, stopped)
            ended = {result.id for result in results}
            remaining = tuple(test for test in remaining if test not in ended)
            for result in results:
                if is_unsettled(result) and not is_late():
                    better = retry_alone(target, suite, shard, result, retries, store_end, stopped)
                    with lock:
                        store.add([better])

    def retry_failed(task: tuple[Suite, Shard]) -> None:
        suite, shard = task
        if not is_late():
            result = store.results[shard.ids[0]]
            store_result(retry_alone(target, suite, shard, result, retries, store_end, stopped))

    with _interrupt_on_sigterm(), ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            tasks = [pool.submit(run_shard, task) for task in shards]
            for future in [*tasks, *(pool.submit(retry_failed, task) for task in failed)]:
                future.result()
        except BaseException:
            stopped.set()  # ends the processes: they are in sessions of their own, and hear of no interrupt
            pool.shutdown(cancel_futures=True)
            raise
    progress.finish(f"{ran} tests run")
    return ran


@contextlib.contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the tests as an interrupt does; for the main thread."""

    def raise_interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGTERM, raise_interrupt) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, previous)


def retry_alone(
    target: Target,
    suite: Suite,
    shard: Shard,
    result: SuiteResult,
    retries: int,
    on_end: Callable[[SuiteResult], None],
    stopped: threading.Event,
) -> SuiteResult:
    """Run a failed test again up to ``retries`` times, each in its own process.

    Those that ``result`` counts are among them. Returns the last result; it is flaky when the test passed. A test that
    skips itself when it is alone keeps its failure. ``on_end`` gets what `run_process` has for it.
    """
    latest = result
    for attempt in range(result.attempts, retries + 1):
        single = replace(shard, ids=(latest.id,), name=f"{shard.name}-alone-{attempt}")
        results = run_process(target, suite, single, on_end=on_end, stopped=stopped)
        if results:
            passed = results[0].outcome in _PASSED
            if results[0].outcome != "skipped":
                latest = results[0]
            latest = replace(latest, attempts=attempt + 1, flaky=passed, why=latest.why or result.why)
            if passed:
                break
    return latest


def run_process(
    target: Target,
    suite: Suite,
    shard: Shard,
    on_result: Callable[[SuiteResult], None] = lambda result: None,
    on_end: Callable[[SuiteResult], None] = lambda result: None,
    stopped: threading.Event | None = None,
) -> list[SuiteResult]:
    """Run ``shard`` in one process and return a result for each test that ran.

    The last result is that of the test that ended the process, if one did. ``on_result`` gets each result as soon as it
    is known, ``on_end`` that of a process that ended badly behind a test, or did not end. When ``stopped`` is set the
    process is ended; the test that it was running has no result.
    """
    folder = target.folder / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{shard.name}-{os.getpid()}-{threading.get_ident()}"
    ids_path, results_path, log = (folder / f"{stem}.{kind}" for kind in ("ids", "jsonl", "log"))
    with create_file(ids_path) as ids:
        ids.write("".join(f"{test}\n" for test in shard.ids).encode())
    stem_in_target = f"{target.work}/shards/{stem}"
    argv = [*_PYTEST, "--tb=no", "--rootdir", target.tests, "-p", "simcuda.plugin"]
    argv += [
        "--simcuda-results",
        f"{stem_in_target}.jsonl",
        "--simcuda-only",
        f"{stem_in_target}.ids",
        f"{target.tests}/{shard.file}",
    ]
    reader = _ResultReader(results_path, suite.name, set(shard.ids), on_result)
    with create_file(log) as out:
        running = subprocess.Popen(
            target.argv(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        timed_out = _wait_for_end(running, reader, suite.seconds, stopped)
    if stopped is not None and stopped.is_set():
        return reader.results
    code, bad_end = running.returncode, False
    ending = f"its process ended by signal {-code}" if code < 0 else f"its process ended with exit status {code}"
    if reader.running_test:
        if timed_out:
            result = SuiteResult(
                reader.running_test, "too slow", suite.seconds, f"{_NOT_DONE} {suite.seconds:g} s", suite=suite.name
            )
        else:
            result = SuiteResult(reader.running_test, "died", why=ending, suite=suite.name)
        reader.add(result)
    elif not reader.results:
        why = f"no test began in {_limit_start(suite.seconds):.0f} s" if timed_out else _read_last_line(log)
        for test in shard.ids:
            reader.add(SuiteResult(test, "died", why=f"{NOT_BEGUN}{why}", suite=suite.name))
    elif bad_end := timed_out or code not in _GOOD_ENDS:
        if timed_out:
            ending = f"its process did not end in {_limit_start(suite.seconds):.0f} s"
        why = f"{ending}, behind {reader.results[-1].id}"
        on_end(
            SuiteResult(f"{shard.file}{PROCESS_END}", "too slow" if timed_out else "died", why=why, suite=suite.name)
        )
    keeps_log = bad_end or any(result.outcome in _BAD for result in reader.results)
    for path in (ids_path, results_path, *(() if keeps_log else (log,))):
        path.unlink(missing_ok=True)
    for left in folder.glob(f"{results_path.name}.*"):  # of a plug-in that was killed: its processes' ledgers
        remove_folder(left)
    return reader.results


class _ResultReader:
    """Reads the lines that the plug-in writes, as they come."""

    def __init__(self, path: Path, suite: str, wanted: set[str], on_result: Callable[[SuiteResult], None]) -> None:
        path.unlink(missing_ok=True)
        self.results: list[SuiteResult] = []
        self.running_test = ""
        self._path, self._suite, self._wanted, self._on_result = path, suite, wanted, on_result
        self._offset = 0

    def read_new_lines(self) -> bool:
        """Read the new lines; return whether there were any."""
        if not self._path.exists():
            return False
        with self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]  # the last line may still be on its way
        self._offset += len(complete)
        for line in complete.decode("utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                self._parse_line(json.loads(line))
        return bool(complete)

    def _parse_line(self, row: Mapping[str, Any]) -> None:
        if row["outcome"] == "started":
            self.running_test = str(row["id"])
            return
        self.running_test = ""
        seconds, why = float(row.get("seconds") or 0.0), str(row.get("why") or "")
        known, ledger = str(row.get("known") or ""), row.get("ledger") or None
        self.add(
            SuiteResult(
                str(row["id"]), _parse_outcome(row), seconds, why, suite=self._suite, known=known, ledger=ledger
            )
        )

    def add(self, result: SuiteResult) -> None:
        """Store a result and report it, when its test belongs to the shard."""
        if result.id in self._wanted:
            self.results.append(result)
            self._on_result(result)


def _wait_for_end(
    process: subprocess.Popen[bytes], reader: _ResultReader, seconds: float, stopped: threading.Event | None
) -> bool:
    """Wait for the process; kill it on a timeout and return whether it timed out."""
    last = time.monotonic()
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
                return False
            if stopped is not None and stopped.is_set():
                return False
            if reader.read_new_lines():
                last = time.monotonic()
            if time.monotonic() - last > (seconds if reader.running_test else _limit_start(seconds)):
                return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children too: workers of a DataLoader, ranks of a DDP test
        process.wait()
        reader.read_new_lines()


def _limit_start(seconds: float) -> float:
    """Return how long a process may take before its first test, or behind its last."""
    return max(START, 4 * seconds)


def _parse_outcome(row: Mapping[str, Any]) -> str:
    slow = row["outcome"] == "failed" and any(word in str(row.get("why") or "") for word in _TIMEOUTS)
    return "too slow" if slow else str(row["outcome"])


def _read_last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
