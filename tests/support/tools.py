"""What tests need of the machine: ``ci/tools.toml`` says in which Debian package each command is.

A test without its command is skipped, and the reason is the line that installs it:

    pytestmark = pytest.mark.tools("cmake", "ninja")    # for a file, a class or a test

    require_tool("quilt")                               # in a fixture

Where ``DECOUPLE_REQUIRE_TOOLS`` is set, as in CI (``ci/newcomer.py``), such a test fails: what is skipped everywhere
is tested nowhere. So does one that lacks what pip or a download brings (`leave_test`).
"""

from __future__ import annotations

import os
import shutil
import sysconfig
import tomllib
from pathlib import Path
from typing import NoReturn

import pytest

TABLE = Path(__file__).parents[2] / "ci" / "tools.toml"


def read_tools(path: Path = TABLE) -> dict[str, str]:
    """Command -> Debian package, in the order of the table."""
    return {row["command"]: row["package"] for row in tomllib.loads(path.read_text(encoding="utf-8"))["tool"]}


def find_missing(*commands: str) -> str:
    """One line with what is missing of *commands* and how it is installed; empty when all are there.

    Raises KeyError for a command that has no row in the table.
    """
    tools = read_tools()
    packages = {command: tools[command] for command in commands}
    lost = [command for command in commands if shutil.which(command) is None]
    wanted = " ".join(dict.fromkeys(packages[command] for command in lost))
    return f"no {', '.join(lost)} here: apt-get install {wanted}" if lost else ""


def require_tool(*commands: str) -> None:
    """Skip the test that runs, or fail it where tools are required, when one of *commands* is missing."""
    if reason := find_missing(*commands):
        leave_test(reason)


def require_python_headers() -> None:
    """Skip the test that runs when what this Python's modules are compiled with is missing."""
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        leave_test(f"no {header}: apt-get install {read_tools()['python3-config']}")


def leave_test(reason: str, *, ci_lacks_it: bool = False) -> NoReturn:
    """Skip the test that runs for want of what a CI has, or fail it where that is required.

    With ``ci_lacks_it`` CI skips it as well: a page has to say what is tried elsewhere alone.
    """
    if os.environ.get("DECOUPLE_REQUIRE_TOOLS") and not ci_lacks_it:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
