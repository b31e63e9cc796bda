"""Run upstream's own tests by pytest on two torches.

What passes on an unmodified build must pass on ours.
"""

from __future__ import annotations

import signal
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from decouple.base import toml
from decouple.base.errors import DecoupleError
from decouple.base.files import open_for_append
from decouple.base.interpreter import run_python
from decouple.verify.checks import CheckResult
from decouple.verify.venvs import TorchEnvironment

_FILE = Path(__file__).with_name("upstream_tests.toml")
_FAILED = 1
"""pytest's exit status where all tests ran and some failed."""
_NOT_COLLECTED = ("collection failure", "collection skipped")
"""What pytest's report says of what has no tests in it."""


class UpstreamSuite(Struct, frozen=True):
    """A file of upstream's ``test/`` and the tests of it that are run.

    ``select`` is pytest's ``-k``, empty for all. ``crashes``: bare system -> why the file ends by a signal there with
    the official wheel too.
    """

    file: str
    select: str
    crashes: Mapping[str, str] = field(default_factory=dict)


class _File(Struct, frozen=True):
    suite: tuple[UpstreamSuite, ...]


def load_suites() -> tuple[UpstreamSuite, ...]:
    """Read the suites of ``upstream_tests.toml``."""
    return toml.read_own_table(_FILE, _File).suite


def run_suites(tried: TorchEnvironment, tests: str, suites: Iterable[UpstreamSuite], log: Path) -> dict[str, str]:
    """Run the suites with the torch of ``tried``; return test -> outcome.

    "passed", "skipped" or "failed"; ``tests`` is upstream's ``test/`` in there. A file that ended by a signal is one
    entry under its own name, with that signal's ("SIGSEGV"), beside those of the tests that it reported; the others
    run. What pytest says of a file where not all is well goes to the end of ``log``. Raises DecoupleError when a suite
    ran no test at all (the file cannot be imported, nothing is selected) or broke off, so that an empty answer is never
    a pass.
    """
    found: dict[str, str] = {}
    for suite in suites:
        with tempfile.TemporaryDirectory(dir=tried.folder) as folder:
            answer = f"{tried.inside}/{Path(folder).name}/answer.xml"
            pytest = ["-B", "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", tests, "--noconftest"]
            pytest += ["-p", "no:cacheprovider", f"--junitxml={answer}", "-k", suite.select, f"{tests}/{suite.file}"]
            done = run_python([*tried.prefix, *pytest])
            report = Path(folder) / "answer.xml"
            seen = parse_report(report.read_text(encoding="utf-8"), suite.file) if report.exists() else {}
        if done.returncode:
            log.parent.mkdir(parents=True, exist_ok=True)
            with open_for_append(log) as kept:
                kept.write(f"{suite.file} on {tried.name}:\n{done.stdout}{done.stderr}")
        if name := _name_signal(done.returncode):
            seen[suite.file] = name
        elif not seen or done.returncode not in (0, _FAILED):
            said = (done.stdout + done.stderr).strip().splitlines() or [f"exit status {done.returncode}"]
            told = [line for line in said if line.startswith("E ")] or said
            raise DecoupleError(
                f"{suite.file} on {tried.name}: {'the tests broke off' if seen else 'no test ran'}: {told[-1]}",
                next_step=f"read {log}; --no-tests leaves these tests out",
            )
        found |= seen
    return found


def _name_signal(status: int) -> str:
    """Return the name of the signal that ended a process.

    By its status as Python or as a shell gives it; "" where none did.
    """
    number = -status if status < 0 else status - 128
    return signal.Signals(number).name if number in set(signal.Signals) else ""


def parse_report(report: str, file: str) -> dict[str, str]:
    """Parse the outcomes in pytest's JUnit XML.

    An error while a test is set up counts as failed. A file or class that could not be collected, or asked to be
    skipped as a whole, is no test.
    """
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        if any(child.get("message") in _NOT_COLLECTED for child in case):
            continue
        name = f"{file}::{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        found[name] = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
    return found


def compare_outcomes(ours: Mapping[str, str], stock: Mapping[str, str]) -> CheckResult:
    """Check that every test ends on ours as on the unmodified build."""
    differ = [
        f"{name} ({stock.get(name, 'not there')} on the stock build, {ours.get(name, 'not there')} on ours)"
        for name in sorted({*ours, *stock})
        if ours.get(name) != stock.get(name)
    ]
    counted = Counter(ours.values())
    kinds = sorted(counted, key=lambda kind: (kind not in ("passed", "skipped"), kind))
    said = ", ".join(f"{counted[kind]} {kind}" for kind in kinds)
    shown: Sequence[str] = differ[:10]
    return CheckResult(
        "upstream's CPU tests as on a stock build",
        not differ and counted["passed"] > 0,
        f"{said}, {len(differ)} differ" + "".join(f"\n       {line}" for line in shown),
    )


def check_outcomes(seen: Mapping[str, str], crashes: Mapping[str, str]) -> CheckResult:
    """Check that nothing failed, without an unmodified build to compare with.

    ``crashes``: file -> why it ends by a signal there with the official wheel too, or "".
    """
    # a file that ended by a signal has its name there, beside its tests' or in their place
    known = sorted(name for name in seen if crashes.get(name))
    bad = sorted(name for name, outcome in seen.items() if outcome not in ("passed", "skipped") and name not in known)
    counted = Counter(seen.values())
    said = [f"{counted['passed']} passed, {counted['skipped']} skipped, {len(bad)} failed"]
    said += [f"{name} ended by {seen[name]}, with the official wheel too: {crashes[name]}" for name in known]
    said += [name if seen[name] == "failed" else f"{name} ended by {seen[name]}" for name in bad[:10]]
    return CheckResult("upstream's CPU tests", counted["passed"] > 0 and not bad, "\n       ".join(said))
