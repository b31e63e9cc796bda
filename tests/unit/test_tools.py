"""A test that lacks a command is skipped with the line that installs it, through the one table of commands."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import tools
from tests.support.tools import TABLE, find_missing, leave_test, read_tools, require_tool

TESTS = Path(__file__).parents[1]


@pytest.fixture
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH on which there is nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_the_reason_of_a_skip_installs_what_is_missing(empty_machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DECOUPLE_REQUIRE_TOOLS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no cmake, nm, readelf here: apt-get install cmake binutils$"):
        require_tool("cmake", "nm", "readelf")


def test_where_tools_are_required_a_missing_one_is_a_failure(
    empty_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECOUPLE_REQUIRE_TOOLS", "1")
    with pytest.raises(pytest.fail.Exception, match="apt-get install quilt"):
        require_tool("quilt")


def test_what_ci_lacks_is_skipped_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECOUPLE_REQUIRE_TOOLS", "1")
    with pytest.raises(pytest.skip.Exception, match="no source"):
        leave_test("no source of 2.13", ci_lacks_it=True)


def test_nothing_is_said_of_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: f"/usr/bin/{command}")
    assert find_missing(*read_tools()) == ""


def test_a_command_without_a_row_is_a_mistake_of_the_test() -> None:
    with pytest.raises(KeyError, match="no-such-command"):
        find_missing("no-such-command")


def test_every_row_says_why() -> None:
    rows = TABLE.read_text().count("[[tool]]")
    assert rows == len(read_tools()) == TABLE.read_text().count("\nwhy = ")


def calls(word: str) -> Iterator[tuple[Path, ast.Call, str]]:
    """Each call in a test's file that has ``word``, with what its first argument is where that is a text."""
    for path in TESTS.rglob("*.py"):
        text = path.read_text()
        if word in text and path not in (Path(__file__), Path(tools.__file__)):
            for call in ast.walk(ast.parse(text)):
                if isinstance(call, ast.Call) and word in ast.unparse(call.func):
                    yield from ((path, call, one.value) for one in call.args if isinstance(one, ast.Constant))


def test_no_test_asks_for_a_tool_in_a_way_of_its_own() -> None:
    """``shutil.which`` of a command in the table is a skip whose reason installs nothing."""
    known = read_tools()
    assert [f"{path}:{call.lineno}" for path, call, text in calls("which") if text in known] == []


def test_every_command_that_a_mark_names_has_a_row() -> None:
    known = read_tools()
    for word in ("mark.tools", "require_tool"):
        assert {text for _, _, text in calls(word)} <= known.keys()


def test_no_test_skips_for_want_of_what_pip_brings_in_a_way_of_its_own() -> None:
    """An error of pip is a failure where tools are required: `leave_test`."""
    brought = ("NoTorchError", "SimcudaError")
    handlers = (
        (path, node)
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type and ast.unparse(node.type).endswith(brought)
    )
    assert [f"{path}:{one.lineno}" for path, one in handlers if "pytest.skip" in ast.unparse(one)] == []
    assert [f"{path}:{call.lineno}" for path, call, _ in calls("importorskip")] == []


def test_no_test_skips_for_want_of_a_source_in_a_way_of_its_own() -> None:
    """CI has applied the series before it tests: a source that is not there is a failure."""
    tries = (
        (path, node)
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Try) and "fetch_source(" in ast.unparse(node.body[0])
    )
    found = [
        f"{path}:{one.lineno}" for path, one in tries if any("pytest.skip" in ast.unparse(h) for h in one.handlers)
    ]
    assert found == []


def conditions() -> Iterator[tuple[Path, int, str]]:
    """The condition of each ``skipif`` in the tests, with what the module says of the names in it."""
    for path in TESTS.rglob("*.py"):
        text = path.read_text()
        if "mark.skipif(" not in text or path == Path(__file__):
            continue
        module = ast.parse(text)
        values = {ast.unparse(one.targets[0]): one.value for one in module.body if isinstance(one, ast.Assign)}
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.skipif"):
                said, left = ast.unparse(call.args[0]), [call.args[0]]
                while left:
                    for name in {one.id for one in ast.walk(left.pop()) if isinstance(one, ast.Name)} & values.keys():
                        left.append(values.pop(name))
                        said += f"; {name} = {ast.unparse(left[-1])}"
                yield path, call.lineno, said


def test_no_test_skips_for_want_of_a_file_of_ours() -> None:
    """Renamed, it would take its tests along, in CI too, and no test would be red."""
    looks = re.compile(r"(?<!Path\('/etc/subuid'\))\.(exists|is_file|is_dir|read_text|read_bytes)\(")
    assert [f"{path}:{line}: {said}" for path, line, said in conditions() if looks.search(said)] == []


def test_no_mark_skips_for_want_of_a_command() -> None:
    """A mark of pytest's own does not ask whether tools are required: ``mark.tools`` does, and names the package."""
    assert [f"{path}:{line}: {said}" for path, line, said in conditions() if "which(" in said] == []


def test_no_mark_skips_for_want_of_a_variable() -> None:
    """Nothing sets it in CI: 15 tests on a PyTorch for CUDA waited for one, and were tested nowhere."""
    assert [f"{path}:{line}: {said}" for path, line, said in conditions() if "environ" in said] == []
