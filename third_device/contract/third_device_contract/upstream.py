"""Run upstream's own test suites on a backend (item 47).

It has which ones, what is known not to hold and why, and the verdict. The suites are the files of a PyTorch source
tree's ``test`` folder, of the release that is installed. They run in a process of their own. Those of ``upstream.toml``
do with ``PYTORCH_TESTING_DEVICE_ONLY_FOR=privateuse1``, so that `instantiate_device_type_tests` makes them for
``PrivateUse1TestBase`` and nothing else. Those of ``upstream_distributed.toml`` say ``cuda`` and run as programs for
CUDA do (``DECOUPLE_AS_CUDA``), once for each number of devices. Everything that can run does run: what the lists name
may fail, and an entry whose tests all pass is told, so that no list can rot.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef, import-not-found]

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclasses.dataclass(frozen=True)
class Known:
    """Tests that are known not to hold.

    ``test`` is a glob over names without the device and what follows it.
    """

    test: str
    whose: str  # upstream: no backend can pass; layer: third_device/layer could do it; backend: a kernel could
    reason: str
    where: str
    run: bool = True  # False: it hangs or ends the process
    releases: tuple[str, ...] = ()  # "2.6": only there; empty: everywhere
    devices: int = 0  # only where the suite has this many; 0: with any number

    def applies(self, release: str) -> bool:
        """Whether the entry is about a release of PyTorch."""
        return _is_about(self.releases, release)


@dataclasses.dataclass(frozen=True)
class Suite:
    """One file of upstream's tests.

    ``only`` are the test names to run (globs as in Known); empty means all. With ``devices`` the file is a program for
    CUDA: the simulated driver has that many, and all its tests are about the device. ``expected`` are its counts on
    torch_sim, of tests that passed, failed and were skipped.
    """

    file: str
    why: str
    only: tuple[str, ...] = ()
    known: tuple[Known, ...] = ()
    releases: tuple[str, ...] = ()
    devices: int = 0
    expected: tuple[int, ...] = ()

    def is_about(self, release: str) -> bool:
        """Whether the suite is told of a release of PyTorch."""
        return _is_about(self.releases, release)

    def __str__(self) -> str:
        return Path(self.file).stem + (f"-{self.devices}" if self.devices else "")


def _is_about(releases: Sequence[str], release: str) -> bool:
    return not releases or any(release == one or release.startswith(one + ".") for one in releases)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one test did."""

    test: str
    outcome: str
    message: str = ""

    def base(self, device: str) -> str:
        """Return upstream's name of the method, without ``_<device>`` and the rest."""
        return strip_device(self.test, device)


def strip_device(test: str, device: str) -> str:
    """Return a test's name without ``_<device>`` and the rest.

    It is the whole name of a test that is not about the device. The device is a word: "sim" is none in "similarity".
    """
    return re.split(rf"_{device}(?![A-Za-z0-9])", test, maxsplit=1)[0]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A suite's outcomes against what is known."""

    passed: int
    skipped: int
    known: tuple[tuple[str, Known], ...]  # failed or not run, with the entry
    unexpected: tuple[Outcome, ...]
    stale: tuple[Known, ...]

    def is_tried(self) -> bool:
        """Whether a test passed, or failed as the list says: else nothing was learnt."""
        return bool(self.passed or any(entry.run for _, entry in self.known))

    def note(self) -> str:
        """One line for the report card."""
        said = f"{self.passed} passed, {self.skipped} skipped by upstream"
        reasons = dict.fromkeys(f"{entry.test}: {entry.reason}" for _, entry in self.known)
        said += f", {len(self.known)} known ({'; '.join(reasons)})" if reasons else ""
        stale = ", ".join(entry.test for entry in self.stale)
        return said + (f"; passes now, take it off the list: {stale}" if stale else "")


def load(name: str = "upstream.toml") -> tuple[Suite, ...]:
    """Load the suites of a file of this package, one for each number of devices.

    Raises TypeError for a key that does not exist.
    """
    text = resources.files("third_device_contract").joinpath(name).read_text(encoding="utf-8")
    made = []
    for entry in tomllib.loads(text)["suite"]:
        known = tuple(Known(**{**one, "releases": tuple(one.get("releases", ()))}) for one in entry.pop("known", ()))
        lists = {key: tuple(entry.pop(key, ())) for key in ("only", "releases")}
        counts: dict[str, list[int]] = entry.pop("devices", {"0": []})
        for number, expected in counts.items():
            about = tuple(one for one in known if one.devices in (0, int(number)))
            made.append(Suite(**{**entry, **lists}, known=about, devices=int(number), expected=tuple(expected)))
    return tuple(made)


def judge(suite: Suite, outcomes: Iterable[Outcome], device: str, release: str) -> Verdict:
    """Hold outcomes against the entries of the suite that are about this release."""
    entries = [entry for entry in suite.known if entry.applies(release)]
    passed = skipped = 0
    known: list[tuple[str, Known]] = [(entry.test, entry) for entry in entries if not entry.run]
    unexpected: list[Outcome] = []
    held: dict[Known, set[str]] = {entry: set() for entry in entries}
    for outcome in outcomes:
        base = outcome.test if suite.devices else outcome.base(device)
        entry = next((e for e in entries if fnmatch.fnmatchcase(base, e.test)), None)
        if entry is not None:
            held[entry].add(outcome.outcome)
        if outcome.outcome == PASSED:
            passed += 1
        elif outcome.outcome == SKIPPED:
            skipped += 1
        elif entry is None:
            unexpected.append(outcome)
        else:
            known.append((outcome.test, entry))
    stale = tuple(entry for entry in entries if entry.run and PASSED in held[entry] and FAILED not in held[entry])
    return Verdict(passed, skipped, tuple(known), tuple(unexpected), stale)


def command(suite: Suite, folder: Path, release: str, results: Path) -> list[str]:
    """How the suite is run; the outcomes go to ``results``."""
    left_out = [entry.test for entry in suite.known if entry.applies(release) and not entry.run]
    names = "|".join(suite.only), "|".join(left_out)
    return [
        *(sys.executable, "-m", "pytest", "-v", "--tb=line", "-p", "no:cacheprovider"),
        *("--noconftest",),  # upstream's is for its CI, and for pytest before 9
        *("-p", "third_device_contract.upstream_select", f"--junitxml={results}"),
        *("-o", "junit_family=xunit1", f"--only-tests={names[0]}", f"--left-out={names[1]}"),
        *(("--any-device",) if suite.devices else ()),
        str(folder / suite.file),
    ]


def run(
    suite: Suite, folder: Path, release: str, scratch: Path, timeout: float, device: str = ""
) -> tuple[list[Outcome], str]:
    """Run the suite; return its outcomes and the end of what it printed.

    A process that ended otherwise than pytest does is a failure beside them: a crash of what is unloaded, say.
    ``device`` is the one that ``cuda`` means, where the suite is a program for CUDA. Raises subprocess.TimeoutExpired.
    """
    results = scratch / "results.xml"
    results.unlink(missing_ok=True)  # of an earlier run, which would be taken for this one's if it ends without any
    environment = dict(os.environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    if suite.devices:
        environment |= {"DECOUPLE_AS_CUDA": device, "TD_SIM_DEVICES": str(suite.devices), "OMP_NUM_THREADS": "1"}
    else:
        environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "privateuse1"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # the folder may be that of a tree that others read, too
    environment.pop("PYTEST_ADDOPTS", None)
    process = subprocess.Popen(
        command(suite, folder, release, results),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        printed, warned = process.communicate(timeout=timeout)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # its ranks, too: they may wait for each other without end
        process.communicate()
        raise
    if results.exists():
        outcomes = read(results)
        if process.returncode not in range(6):  # pytest's own
            outcomes.append(Outcome("end of the process", FAILED, f"exit status {process.returncode} after the report"))
        return outcomes, (printed + warned)[-3000:]
    ended = [line for line in printed.splitlines() if "::" in line]
    return [], f"{ended[-1] if ended else 'before any test'}: exit status {process.returncode}\n{warned[:1500]}"


def read(results: Path) -> list[Outcome]:
    """Read the outcomes in a JUnit file as pytest writes it."""
    made = []
    for case in ElementTree.parse(results).iter("testcase"):
        outcome, message = PASSED, ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, message = FAILED, child.get("message", "").splitlines()[0] if child.get("message") else ""
            elif child.tag == "skipped":
                outcome, message = SKIPPED, child.get("message", "")
        made.append(Outcome(case.get("name", ""), outcome, message))
    return made


def release_of(folder: Path) -> str | None:
    """Return the release (``2.6.0``) of the tree that has this ``test`` folder.

    It is read from ``version.txt``; None without that.
    """
    version = folder.parent / "version.txt"
    if not version.is_file():
        return None
    digits: Sequence[str] = version.read_text(encoding="utf-8").strip().split("a")[0].split("+")[0].split(".")
    return ".".join(digits[:3])
