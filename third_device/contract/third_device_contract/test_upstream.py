"""Item 47: upstream's own suites, run for the device."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from third_device_contract import upstream
from third_device_contract.plugin import Run


@pytest.fixture(scope="session")
def upstream_tests(request: pytest.FixtureRequest) -> Path:
    """Return the ``test`` folder of the source tree of the PyTorch that is installed."""
    release = ".".join(torch.__version__.split("+")[0].split(".")[:3])
    folder: Path | None = request.config.getoption("--upstream-tests")
    if folder is None:
        pytest.skip(f"pass --upstream-tests FOLDER: the test folder of PyTorch {release}'s source, which no wheel has")
    folder = folder.resolve()
    theirs = upstream.release_of(folder)
    if theirs is not None and theirs != release:
        pytest.fail(f"{folder} is of PyTorch {theirs}, but {release} is installed: give the tests of {release}")
    return folder


@pytest.fixture
def run_suite(
    name: str,
    upstream_tests: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> Callable[[upstream.Suite], upstream.Verdict]:
    """Run a suite; fail where a test does that its list does not name."""

    def run(suite: upstream.Suite) -> upstream.Verdict:
        if not (upstream_tests / suite.file).is_file():
            pytest.fail(f"{upstream_tests / suite.file} does not exist: is this the test folder of a PyTorch tree?")
        release = torch.__version__.split("+")[0]
        timeout = float(request.config.getoption("--upstream-timeout"))
        outcomes, tail = upstream.run(suite, upstream_tests, release, tmp_path, timeout, name)
        assert outcomes, f"{suite.file} ended without a result, in {tail}"
        verdict = upstream.judge(suite, outcomes, name, release)
        record_property("note", f"{suite.file}: {verdict.note()}")
        lines = [f"{one.test}: {one.message}" for one in verdict.unexpected]
        assert not lines, f"{len(lines)} of {suite.file} fail and are not in its list:\n" + "\n".join(lines)
        assert verdict.is_tried(), f"nothing of {suite.file} passed: {verdict.note()}\n{tail}"
        return verdict

    return run


@pytest.mark.contract_item(47)
@pytest.mark.parametrize("suite", upstream.load(), ids=str)
def test_suite(suite: upstream.Suite, run_suite: Callable[[upstream.Suite], upstream.Verdict]) -> None:
    run_suite(suite)


@pytest.mark.contract_item(47)
@pytest.mark.parametrize("suite", upstream.load("upstream_distributed.toml"), ids=str)
def test_distributed_suite(
    suite: upstream.Suite,
    name: str,
    mod: types.ModuleType,
    request: pytest.FixtureRequest,
    python: Run,
    run_suite: Callable[[upstream.Suite], upstream.Verdict],
) -> None:
    """Run what the release and the devices are enough for."""
    if not request.config.getoption("--upstream-distributed"):
        pytest.skip("optional: pass --upstream-distributed, too: runs upstream's tests of FSDP2 and DTensor")
    if not suite.is_about(torch.__version__):
        pytest.skip(f"optional: {suite.file} is told of PyTorch {', '.join(suite.releases)}")
    if not hasattr(mod, "as_cuda"):
        pytest.skip("optional: this backend does not run programs written for CUDA (torch.<dev>.as_cuda)")
    asked = python(f"import torch; print(torch.{name}.device_count())", env={"TD_SIM_DEVICES": str(suite.devices)})
    assert asked.returncode == 0, asked.stderr
    if int(asked.stdout.split()[-1]) < suite.devices:
        pytest.skip(f"optional: {suite.file} needs {suite.devices} devices, there are {asked.stdout.split()[-1]}")
    verdict = run_suite(suite)
    if name == "sim":
        found = (verdict.passed, len(verdict.known), verdict.skipped)
        assert found == suite.expected, f"{suite.file}: upstream_distributed.toml has other counts; correct its row"
