"""The examples in docstrings are right: those of flows run on a checkout (flows/test_examples.py), the others here.

And the first line of each docstring fits in 80 characters; ruff has no rule for that.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import decouple

PACKAGE = Path(decouple.__file__).parent
EXAMPLES = sorted(
    path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] != "flows" and re.search(r"(?m)^ *>>> ", path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_a_module_say_what_it_returns(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert done.attempted and not done.failed


ROOT = PACKAGE.parents[1]
LONGEST = 80


def list_sources() -> list[Path]:
    """What a build left in ``third_device`` is none of them."""
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "scripts", "third_device", "ci", "noxfile.py"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in names if name.endswith(".py") and (ROOT / name).is_file()]


def list_long_first_lines(source: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first, _, _ = (ast.get_docstring(node) or "").partition("\n")
            if len(first) > LONGEST:
                yield node.body[0].lineno, len(first)


def test_the_first_line_of_a_docstring_fits_in_80_characters() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{line}: {length} characters"
        for path in list_sources()
        for line, length in list_long_first_lines(path.read_text(encoding="utf-8"))
    ]
    assert not long, "\n".join(long)


def test_a_long_first_line_is_found_in_modules_classes_and_functions() -> None:
    long = "x" * (LONGEST + 1)
    source = f'''"""{long}"""
class A:
    """{long}"""
    async def f():
        """{long}"""
    def g():
        """{"x" * LONGEST}

        {long}
        """
'''
    assert sorted(list_long_first_lines(source)) == [(1, 81), (3, 81), (5, 81)]
