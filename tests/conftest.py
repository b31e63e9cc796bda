"""What every test has: ``@pytest.mark.tools`` asks for the commands that a test needs before its fixtures are made."""

from __future__ import annotations

import pytest

from tests.support.tools import require_tool


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("tools"):
        require_tool(*marker.args)
