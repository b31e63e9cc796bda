"""Item 47: upstream's own suites, run for the device."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from third_device_contract import upstream


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


@pytest.mark.contract_item(47)
@pytest.mark.parametrize("suite", upstream.load(), ids=lambda suite: Path(suite.file).stem)
def test_suite(
    suite: upstream.Suite,
    name: str,
    mod: types.ModuleType,
    upstream_tests: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    if not (upstream_tests / suite.file).is_file():
        pytest.fail(f"{upstream_tests / suite.file} does not exist: is this the test folder of a PyTorch tree?")
    release = torch.__version__.split("+")[0]
    timeout = float(request.config.getoption("--upstream-timeout"))
    outcomes, tail = upstream.run(suite, upstream_tests, release, tmp_path, timeout)
    assert outcomes, f"{suite.file} ended without a result, in {tail}"
    verdict = upstream.judge(suite, outcomes, name, release)
    record_property("note", f"{suite.file}: {verdict.note()}")
    lines = [f"{one.test}: {one.message}" for one in verdict.unexpected]
    assert not lines, f"{len(lines)} of {suite.file} fail and are not in upstream.toml:\n" + "\n".join(lines)
    assert verdict.passed, f"nothing of {suite.file} passed: {verdict.note()}\n{tail}"
