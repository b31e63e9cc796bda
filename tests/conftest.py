"""What every test has: the commands that it needs are asked for before its fixtures are made (``@pytest.mark.tools``);
Git goes by no settings of the machine or of a Git that started the tests; servers of tests are asked for at no proxy;
and what a test leaves of variables and working directory is what it found: others run after it in the same process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.tools import require_tool

# To a hook Git tells its repository and index (githooks(5)): tests would commit there. How hosts are reached stays.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    if not name.startswith(("GIT_HTTP_", "GIT_PROXY_", "GIT_SSL_")):
        del os.environ[name]
# A machine with nothing set up has no name for commits; one that is in use may sign them or convert line ends, and one
# with a domain makes a name up: the tests, and the commands they run, see none of it (git-config(1), ENVIRONMENT).
os.environ.pop("EMAIL", None)
os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
os.environ.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="user.useConfigOnly", GIT_CONFIG_VALUE_0="true")
# The servers of tests are on this machine: its proxy, if it has one, would look for them on its own.
no_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
if no_proxy != "*":  # all hosts; in a list it is a name to Python
    no_proxy = ",".join(filter(None, ("127.0.0.1", "localhost", no_proxy)))
os.environ.update(no_proxy=no_proxy, NO_PROXY=no_proxy)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("tools"):
        require_tool(*marker.args)


@pytest.fixture(autouse=True)
def process_stays_as_it_was() -> Iterator[None]:
    """Fail the test that leaves another variable or working directory behind, and put them right for the next one."""
    before, folder = dict(os.environ), Path.cwd()
    yield
    after, left = dict(os.environ), Path.cwd()
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    os.chdir(folder)
    for name in changed - {"PYTEST_CURRENT_TEST"}:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    assert not changed - {"PYTEST_CURRENT_TEST"}, "the test leaves variables changed"
    assert left == folder, "the test leaves the process in another folder"


@pytest.fixture(autouse=True)
def commands_stay_untold() -> Iterator[None]:
    """Fail the test that shows commands in this process: what hears of them stays, and others read what it says."""

    def refuse(say: object) -> NoReturn:
        pytest.fail(f"{say} would hear of every command to the end of the process: take a process of its own")

    with pytest.MonkeyPatch.context() as patch:  # its own: that of a test is undone before what the test leaves is seen
        patch.setattr("decouple.base.process.show_commands", refuse)
        yield
