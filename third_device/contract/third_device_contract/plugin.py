"""The pytest plugin: options, fixtures, what a failure says, and the report card."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

from third_device_contract import report

ITEM = "contract_item"
_outcomes = pytest.StashKey[report.Outcomes]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("third-party backend contract")
    group.addoption("--device", metavar="NAME", help="the backend's device name, e.g. acme for torch.acme")
    group.addoption("--device-package", metavar="PACKAGE", help="its import name (default: torch_<NAME>)")
    group.addoption(
        "--no-driver-env",
        metavar="KEY=VALUE",
        default="TD_SIM_DRIVER=absent",
        help="the environment in which it behaves as without a driver (default: the simulated driver's, %(default)s)",
    )
    group.addoption(
        "--zero-devices-env",
        metavar="KEY=VALUE",
        default="TD_SIM_DEVICES=0",
        help="the environment in which there is a driver but no device (default: %(default)s)",
    )
    group.addoption(
        "--upstream-tests",
        metavar="FOLDER",
        type=Path,
        help="the test folder of the source tree of the PyTorch that is installed: runs upstream's own suites, too",
    )
    group.addoption(
        "--upstream-distributed",
        action="store_true",
        help="with --upstream-tests: those of FSDP2 and DTensor, too (about an hour)",
    )
    group.addoption(
        "--upstream-timeout", metavar="SECONDS", default=3600, type=float, help="for one suite (default: %(default)s)"
    )
    group.addoption(
        "--contract-report", metavar="FOLDER", type=Path, help="write contract.json and contract.html there"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{ITEM}(number): the item of the contract that a test checks")
    config.addinivalue_line("markers", "timeout(seconds): for pytest-timeout, where it is installed")
    folder: Path | None = config.getoption("--contract-report")
    if folder:
        _create_folder(folder)  # at the end it would be too late: a whole run takes an hour
    config.stash[_outcomes] = outcomes = report.Outcomes(report.load_items())
    config.pluginmanager.register(Collector(outcomes))


def _create_folder(folder: Path) -> None:
    """Create the folder of the report. Raises UsageError where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--contract-report {folder}: {error.strerror}; name another folder") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise pytest.UsageError(f"--contract-report {folder}: no permission to write there; name another folder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the contract's own tests need a device, and those cannot run without one."""
    own = [item for item in items if item.get_closest_marker(ITEM)]
    if own and not config.getoption("--device"):
        raise pytest.UsageError("--device NAME is needed: the backend that the contract is checked on")
    known = config.stash[_outcomes].items
    for item in own:
        for number in _numbers(item):
            if number not in known:
                raise pytest.UsageError(f"{item.nodeid}: the contract has no item {number}")


def _numbers(item: pytest.Item) -> list[int]:
    """Return the numbers of the contract's items that a test checks."""
    return sorted(int(marker.args[0]) for marker in item.iter_markers(ITEM))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the items in the report, and tell what PyTorch expects of them."""
    outcome = yield
    result: pytest.TestReport = outcome.get_result()  # type: ignore[attr-defined]
    outcomes = item.config.stash[_outcomes]
    for number in _numbers(item):
        entry = outcomes.items[number]
        result.user_properties.append((ITEM, number))
        if result.failed:
            result.sections.append(("contract", f"item {number}: PyTorch expects: {entry.title}\nsee {entry.where}"))


class Collector:
    """Collect the outcomes in the process that writes the card.

    With pytest-xdist the tests run in others.
    """

    def __init__(self, outcomes: report.Outcomes) -> None:
        self._outcomes = outcomes
        self._begun: dict[str, list[int]] = {}  # pytest-xdist reports a test that ended its process without its items

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test said to each of its items."""
        numbers = [int(str(number)) for key, number in report.user_properties if key == ITEM]
        if report.when == "setup":
            self._begun[report.nodeid] = numbers
        if report.when != "call" and report.passed:
            return
        notes = [str(value) for key, value in report.user_properties if key == "note"]
        for number in numbers or self._begun.get(report.nodeid, []):
            self._outcomes.add(number, report.nodeid, report.outcome, _reason(report), "; ".join(notes))


def _reason(result: pytest.TestReport) -> str:
    if result.skipped and isinstance(result.longrepr, tuple):
        return str(result.longrepr[2]).removeprefix("Skipped: ")
    if result.failed:
        crash = getattr(result.longrepr, "reprcrash", None)
        return str(crash.message).splitlines()[0] if crash else str(result.longrepr).splitlines()[-1]
    return ""


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    outcomes = config.stash[_outcomes]
    if not outcomes.seen:
        return
    name = config.getoption("--device")
    terminalreporter.section(f"contract: {name}")
    for line in report.as_lines(outcomes):
        terminalreporter.write_line(line)
    folder: Path | None = config.getoption("--contract-report")
    if folder:
        for path in report.write(outcomes, name, folder, int(exitstatus)):
            terminalreporter.write_line(f"written: {path}")


@pytest.fixture(scope="session")
def name(request: pytest.FixtureRequest) -> str:
    """Return the device's name, e.g. ``acme``."""
    value: str = request.config.getoption("--device")
    return value


@pytest.fixture(scope="session")
def package(request: pytest.FixtureRequest, name: str) -> str:
    """Return the backend's import name, e.g. ``torch_acme``."""
    return request.config.getoption("--device-package") or f"torch_{name}"


@pytest.fixture(scope="session")
def mod(name: str) -> ModuleType:
    """``torch.<name>``."""
    import torch

    module: ModuleType | None = getattr(torch, name, None)
    if module is None:
        pytest.fail(f"`import torch` did not make torch.{name}; is the backend installed in this environment?")
    return module


def tell_missing_kernel(mod: ModuleType, call: Callable[[], Any]) -> str:
    """Return what is said of the first operator in ``call`` that has no kernel."""
    try:
        with mod.no_fallback():
            call()
    except NotImplementedError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.fixture
def two(mod: ModuleType) -> None:
    """Skips a test that needs two devices where there is one."""
    if mod.device_count() < 2:
        pytest.skip(f"needs 2 devices, there is {mod.device_count()}")


@pytest.fixture
def host_only_operator() -> Iterator[None]:
    """Define ``torch.ops.contract_host.halve`` for the CPU alone.

    A backend may have a kernel for any operator of ATen; for this one it has none.
    """
    import torch

    with torch.library._scoped_library("contract_host", "DEF") as library:
        library.define("halve(Tensor x) -> Tensor")
        library.impl("halve", lambda x: x / 2, "CPU")
        yield


Knob = Callable[[str, int], None]


@pytest.fixture
def knob(mod: ModuleType) -> Iterator[Knob]:
    """Give a function that turns a fault knob of the driver, and turn it back."""
    control: Knob | None = getattr(mod, "_driver_control", None)
    back = {"fail_allocations": 0, "fail_calls": 0, "copy_delay_us": 0}
    turned: list[str] = []

    def turn(key: str, value: int) -> None:
        if control is None:
            pytest.skip("this backend has no _driver_control to inject faults with")
        if key == "memory_bytes":
            back.setdefault(key, mod.get_device_properties(0).total_memory)
        try:
            control(key, value)
        except RuntimeError as error:
            pytest.skip(f"this driver has no knob {key!r}: {error}")
        turned.append(key)

    yield turn
    for key in turned:
        if control is not None and key in back:
            control(key, back[key])


Gap = Callable[[str], NoReturn]


@pytest.fixture(scope="session")
def gap() -> Gap:
    """Return a function that ends a test at a gap of upstream, by items.toml's key."""
    known = report.load_gaps()

    def met(key: str) -> NoReturn:
        pytest.skip(known[key])

    return met


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Run:
    """Return a function that runs code in a fresh interpreter.

    It returns the finished process. Entries of its ``env`` are added to the environment; None removes one.
    """

    def run(
        code: str, *, env: dict[str, str | None] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ)
        for key, value in (env or {}).items():
            if value is None:
                environment.pop(key, None)
            else:
                environment[key] = value
        script = tmp_path / "script.py"
        script.write_text(code, encoding="utf-8")
        return subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=timeout,
            cwd=tmp_path,
        )

    return run
