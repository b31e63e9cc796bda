"""Running tests: collected per file, in processes of their own, again alone where they failed, stored as they end.

As upstream's ``run_test.py`` does: a failure is tried again in a process of its own, and one that then passes is flaky.
A test that ends its process, or does not end, is named; those behind it run in another process.
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

from decouple.base.progress import SILENT, Progress
from decouple.suites.catalog import Suite
from decouple.suites.shards import Shard, cut
from decouple.suites.store import Store, SuiteResult
from decouple.suites.target import Target

#: Seconds that a process may take before its first test, or four times what a test may take: torch is imported and the
#: whole file collected again.
START = 240.0
_PYTEST = ("-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider", "--no-header")
_BAD = {"failed", "died", "too slow"}


class Collected(Struct, frozen=True):
    """The tests of one file; ``why`` says why there is none, ``broken`` that pytest could not look."""

    suite: Suite
    file: str
    ids: tuple[str, ...]
    why: str = ""
    broken: bool = False

    @property
    def name(self) -> str:
        """What stands for the file itself among the ids of its tests."""
        return f"{self.file}::(collection)"


def collect(target: Target, suite: Suite, file: str) -> Collected:
    """Ask pytest which tests of ``file`` the suite means, with the torch and the device of ``target``."""
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
        done = subprocess.run(
            target.argv(argv), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=4 * START
        )
    except subprocess.TimeoutExpired:
        return Collected(suite, file, (), f"not collected in {4 * START:.0f} seconds", broken=True)
    ids = tuple(line for line in done.stdout.splitlines() if line.startswith(f"{file}::"))
    if ids or done.returncode in (0, 5):  # 5: no test was chosen
        return Collected(suite, file, ids, "" if ids else "none of its tests is chosen")
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in said if line.startswith("E  ")] or said[-1:] or [f"exit status {done.returncode}"]
    return Collected(suite, file, (), telling[-1].removeprefix("E  ").strip(), broken=True)


def run(
    target: Target,
    collected: Sequence[Collected],
    store: Store,
    *,
    only: Callable[[str], bool] = lambda _: True,
    expected: Callable[[str], bool] = lambda _: False,
    jobs: int = 1,
    retries: int = 1,
    minutes: float | None = None,
    progress: Progress = SILENT,
) -> int:
    """Run what ``store`` has no result of, and return how many tests were run.

    ``only`` chooses tests, ``expected`` says of which a failure is known: it is not tried again. With ``minutes`` no
    new process starts after that time; the next call goes on.
    """
    began = time.monotonic()
    shards: list[tuple[Suite, Shard]] = []
    for one in collected:
        ids = [test for test in one.ids if only(test) and test not in store.results]
        shards += [(one.suite, shard) for shard in cut(one.suite.name, one.file, ids, one.suite.process)]
        if one.broken:
            store.add([SuiteResult(one.name, "failed", why=one.why, suite=one.suite.name)])
    total = sum(len(shard.ids) for _, shard in shards)
    progress.start(f"CUDA suites on {target.label} ({target.device})", float(total), "tests")
    lock = threading.Lock()
    ran = 0

    stopped = threading.Event()

    def late() -> bool:
        return stopped.is_set() or (minutes is not None and time.monotonic() - began > 60 * minutes)

    def done(result: SuiteResult) -> None:
        nonlocal ran
        with lock:
            store.add([result])
            ran += 1
            progress.advance()

    def whole(work: tuple[Suite, Shard]) -> None:
        suite, shard = work
        left, number = shard.ids, 0
        while left and not late():
            number += 1
            results = process(target, suite, replace(shard, ids=left, name=f"{shard.name}.{number}"), done, stopped)
            ended = {one.id for one in results}
            left = tuple(test for test in left if test not in ended)
            for one in results:
                if len(shard.ids) > 1 and one.outcome in _BAD and not one.known and not expected(one.id) and not late():
                    better = alone(target, suite, shard, one, retries, stopped)
                    with lock:
                        store.add([better])

    with _terminated_as_interrupted(), ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            for future in [pool.submit(whole, work) for work in shards]:
                future.result()
        except BaseException:
            stopped.set()  # ends the processes: they are in sessions of their own, and hear of no interrupt
            pool.shutdown(cancel_futures=True)
            raise
    progress.finish(f"{ran} tests run")
    return ran


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A termination of this process ends the tests as an interrupt does; for the main thread."""

    def stop(number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    old = signal.signal(signal.SIGTERM, stop) if main else None
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, old)


def alone(
    target: Target, suite: Suite, shard: Shard, result: SuiteResult, retries: int, stopped: threading.Event
) -> SuiteResult:
    """What became of a test that failed, tried again up to ``retries`` times in processes of its own."""
    found = result
    for attempt in range(1, retries + 1):
        one = replace(shard, ids=(found.id,), name=f"{shard.name}-alone-{attempt}")
        again = process(target, suite, one, stopped=stopped)
        if again:
            better = again[0].outcome not in _BAD
            found = replace(again[0], attempts=attempt + 1, flaky=better, why=again[0].why or result.why)
            if better:
                break
    return found


def process(
    target: Target,
    suite: Suite,
    shard: Shard,
    heard: Callable[[SuiteResult], None] = lambda result: None,
    stopped: threading.Event | None = None,
) -> list[SuiteResult]:
    """Run ``shard`` in one process: a result for each of its tests up to the one that ended the process, if one did.

    ``heard`` gets each result as soon as it is known. When ``stopped`` is set the process is ended; the test that
    it was at has no result.
    """
    folder = target.folder / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{shard.name}-{os.getpid()}-{threading.get_ident()}"
    names, answer, log = (folder / f"{stem}.{kind}" for kind in ("ids", "jsonl", "log"))
    names.write_text("".join(f"{test}\n" for test in shard.ids), encoding="utf-8")
    inside = f"{target.work}/shards/{stem}"
    argv = [*_PYTEST, "--tb=no", "--rootdir", target.tests, "-p", "simcuda.plugin"]
    argv += ["--simcuda-results", f"{inside}.jsonl", "--simcuda-only", f"{inside}.ids", f"{target.tests}/{shard.file}"]
    watched = _Watched(answer, suite.name, set(shard.ids), heard)
    with log.open("wb") as out:
        running = subprocess.Popen(
            target.argv(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        slow = _wait(running, watched, suite.seconds, stopped)
    if stopped is not None and stopped.is_set():
        return watched.found
    if watched.begun:
        code = running.returncode
        how = f"its process ended by signal {-code}" if code < 0 else f"its process ended with exit status {code}"
        if slow:
            ended = SuiteResult(
                watched.begun, "too slow", suite.seconds, f"not done in {suite.seconds:g} s", suite=suite.name
            )
        else:
            ended = SuiteResult(watched.begun, "died", why=how, suite=suite.name)
        watched.add(ended)
    elif not watched.found:
        why = f"no test began in {max(START, 4 * suite.seconds):.0f} s" if slow else _last(log)
        for test in shard.ids:
            watched.add(SuiteResult(test, "died", why=f"no test ran: {why}", suite=suite.name))
    for path in (names, answer, *(() if any(one.outcome in _BAD for one in watched.found) else (log,))):
        path.unlink(missing_ok=True)
    return watched.found


class _Watched:
    """The lines that the plug-in writes, read as they come."""

    def __init__(self, answer: Path, suite: str, wanted: set[str], heard: Callable[[SuiteResult], None]) -> None:
        answer.unlink(missing_ok=True)
        self.found: list[SuiteResult] = []
        self.begun = ""
        self._answer, self._suite, self._wanted, self._heard = answer, suite, wanted, heard
        self._read = 0

    def look(self) -> bool:
        """Read what is new; whether anything was."""
        if not self._answer.exists():
            return False
        with self._answer.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may still be on its way
        self._read += len(whole)
        for line in whole.decode("utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                self._line(json.loads(line))
        return bool(whole)

    def _line(self, row: Mapping[str, Any]) -> None:
        if row["outcome"] == "started":
            self.begun = str(row["id"])
            return
        self.begun = ""
        seconds, why = float(row.get("seconds") or 0.0), str(row.get("why") or "")
        known, ledger = str(row.get("known") or ""), row.get("ledger") or None
        self.add(
            SuiteResult(str(row["id"]), _outcome(row), seconds, why, suite=self._suite, known=known, ledger=ledger)
        )

    def add(self, result: SuiteResult) -> None:
        """One result more, when it is of a test that was asked for."""
        if result.id in self._wanted:
            self.found.append(result)
            self._heard(result)


def _wait(running: subprocess.Popen[bytes], watched: _Watched, seconds: float, stopped: threading.Event | None) -> bool:
    """Wait for the process; kill it when nothing happened for too long, and say so."""
    last, began = time.monotonic(), False
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(timeout=0.5)
                return False
            if stopped is not None and stopped.is_set():
                return False
            if watched.look():
                last, began = time.monotonic(), True
            if time.monotonic() - last > (seconds if began else max(START, 4 * seconds)):
                return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # its children too: workers of a DataLoader, ranks of a DDP test
        running.wait()
        watched.look()


def _outcome(row: Mapping[str, Any]) -> str:
    return "too slow" if "Timeout" in str(row.get("why") or "") and row["outcome"] == "failed" else str(row["outcome"])


def _last(log: Path) -> str:
    said = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return said[-1].strip() if said else "it said nothing"
