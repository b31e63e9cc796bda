"""An error says what to do next: no DecoupleError or UsageError is made without a next step."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import decouple

PACKAGE = Path(decouple.__file__).parent
ERRORS = {"DecoupleError", "UsageError"}


def without_next_step(package: Path) -> list[str]:
    """Each call in ``package`` that makes such an error and gives no ``next_step``, as ``file:line``."""
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                given = {keyword.arg for keyword in node.keywords}
                if not given & {"next_step", None}:  # None: **keywords
                    found.append(f"{path.relative_to(package)}:{node.lineno}")
    return found


def test_every_error_has_a_next_step() -> None:
    assert without_next_step(PACKAGE) == []


def test_one_without_is_found(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text('raise UsageError("x", next_step="y")\nraise DecoupleError("x")\n')
    assert without_next_step(tmp_path) == ["room.py:2"]


#: What is typed before a path, in a string that a person is to type.
BEFORE_A_PATH = re.compile(r"(?:^|[`\s])(?:rm(?: -r)?|git -C|--site|--tree) $")


def find_unquoted_paths(package: Path) -> Iterator[str]:
    """Each place of ``package`` where a path of a command to be typed is written as it is."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for before, value in itertools.pairwise(parts):
                typed = isinstance(before, ast.Constant) and BEFORE_A_PATH.search(str(before.value))
                if typed and "shlex." not in ast.unparse(value):
                    yield f"{path.relative_to(package)}:{value.lineno}"


def test_a_command_to_be_typed_has_its_paths_quoted() -> None:
    """In a checkout with a space in its path `rm` got two other names."""
    assert list(find_unquoted_paths(PACKAGE)) == []
