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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decouple.base.progress import SILENT, Progress
from decouple.suites.catalog import Suite
from decouple.suites.shards import Shard, cut
from decouple.suites.store import Result, Store
from decouple.suites.target import Target

#: Seconds that a process may take before its first test: torch is imported and the whole file collected again.
START = 240.0
_PYTEST = ("-m", "pytest", "-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider", "--no-header")
_BAD = {"failed", "died", "too slow"}


@dataclass(frozen=True)
class Collected:
    """The tests of one file; ``why`` says why there is none."""

    suite: Suite
    file: str
    ids: tuple[str, ...]
    why: str = ""


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
        return Collected(suite, file, (), f"not collected in {4 * START:.0f} seconds")
    ids = tuple(line for line in done.stdout.splitlines() if line.startswith(f"{file}::"))
    if ids or done.returncode in (0, 5):  # 5: no test was chosen
        return Collected(suite, file, ids, "" if ids else "none of its tests is chosen")
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    telling = [line for line in said if line.startswith("E  ")] or said[-1:] or [f"exit status {done.returncode}"]
    return Collected(suite, file, (), telling[-1].removeprefix("E  ").strip())


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
        if not one.ids and one.why:
            store.add([Result(f"{one.file}::(collection)", "failed", why=one.why, suite=one.suite.name)])
    total = sum(len(shard.ids) for _, shard in shards)
    progress.start(f"CUDA suites on {target.label} ({target.device})", float(total), "tests")
    lock = threading.Lock()
    ran = 0

    def late() -> bool:
        return minutes is not None and time.monotonic() - began > 60 * minutes

    def done(results: Sequence[Result]) -> None:
        nonlocal ran
        with lock:
            store.add(results)
            ran += len(results)
            progress.advance(float(len(results)))

    def whole(work: tuple[Suite, Shard]) -> None:
        suite, shard = work
        left = shard.ids
        number = 0
        while left and not late():
            number += 1
            results = process(target, suite, replace(shard, ids=left, name=f"{shard.name}.{number}"))
            left = left[len(results) :] if len(results) <= len(left) else ()
            done([_again(target, suite, shard, one, retries, expected) for one in results])

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for future in [pool.submit(whole, work) for work in shards]:
            future.result()
    progress.finish(f"{ran} tests run")
    return ran


def _again(
    target: Target, suite: Suite, shard: Shard, result: Result, retries: int, expected: Callable[[str], bool]
) -> Result:
    """The result, or that of the test alone in a process of its own when it failed."""
    found = result
    for attempt in range(1, retries + 1):
        if found.outcome not in _BAD or expected(found.id) or len(shard.ids) == 1:
            break
        alone = process(target, suite, replace(shard, ids=(found.id,), name=f"{shard.name}-alone-{attempt}"))
        if alone:
            better = alone[0].outcome not in _BAD
            found = replace(alone[0], attempts=attempt + 1, flaky=better, why=alone[0].why or result.why)
    return found


def process(target: Target, suite: Suite, shard: Shard) -> list[Result]:
    """Run ``shard`` in one process: a result for each of its tests up to the one that ended the process, if one did."""
    folder = target.folder / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{shard.name}-{os.getpid()}-{threading.get_ident()}"
    names, answer, log = (folder / f"{stem}.{kind}" for kind in ("ids", "jsonl", "log"))
    names.write_text("".join(f"{target.tests}/{test}\n" for test in shard.ids), encoding="utf-8")
    answer.unlink(missing_ok=True)
    inside = f"{target.work}/shards/{stem}"
    argv = [
        *_PYTEST,
        "--tb=no",
        "--rootdir",
        target.tests,
        "-p",
        "simcuda.plugin",
        "--simcuda-results",
        f"{inside}.jsonl",
    ]
    with log.open("wb") as out:
        running = subprocess.Popen(
            target.argv([*argv, f"@{inside}.ids"]),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        slow = _watch(running, answer, suite.seconds)
    rows, begun = _rows(answer)
    found = [
        Result(
            id=str(row["id"]),
            outcome=_outcome(row),
            seconds=float(row.get("seconds") or 0.0),
            why=str(row.get("why") or ""),
            suite=suite.name,
            ledger=row.get("ledger"),
        )
        for row in rows
    ]
    if begun and begun not in {one.id for one in found}:
        code = running.returncode
        how = f"not done in {suite.seconds:g} s" if slow else f"its process ended by signal {-code}" if code < 0 else ""
        found.append(
            Result(
                id=begun,
                outcome="too slow" if slow else "died",
                seconds=suite.seconds if slow else 0.0,
                why=how or f"its process ended with exit status {code}",
                suite=suite.name,
            )
        )
    elif not found:
        why = _last(log) if not slow else f"no test began in {START:.0f} s"
        found = [Result(test, "died", why=f"no test ran: {why}", suite=suite.name) for test in shard.ids]
    order = {test: number for number, test in enumerate(shard.ids)}
    for path in (names, answer, *(() if any(one.outcome in _BAD for one in found) else (log,))):
        path.unlink(missing_ok=True)
    return sorted((one for one in found if one.id in order), key=lambda one: order[one.id])


def _watch(running: subprocess.Popen[bytes], answer: Path, seconds: float) -> bool:
    """Wait for the process; kill it when nothing happened for too long, and say so."""
    last, seen = time.monotonic(), -1
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(timeout=1.0)
                return False
            size = answer.stat().st_size if answer.exists() else -1
            if size != seen:
                last, seen = time.monotonic(), size
            if time.monotonic() - last > (seconds if seen > 0 else START):
                return True
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # its children too: workers of a DataLoader, ranks of a DDP test
        running.wait()


def _rows(answer: Path) -> tuple[list[Mapping[str, Any]], str]:
    """The finished tests, and the id of the last one that began."""
    rows: list[Mapping[str, Any]] = []
    begun = ""
    for line in answer.read_text(encoding="utf-8").splitlines() if answer.exists() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if row["outcome"] == "started":
                begun = str(row["id"])
            else:
                rows.append(row)
    return rows, begun


def _outcome(row: Mapping[str, Any]) -> str:
    return "too slow" if "Timeout" in str(row.get("why") or "") and row["outcome"] == "failed" else str(row["outcome"])


def _last(log: Path) -> str:
    said = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return said[-1].strip() if said else "it said nothing"
