"""The examples in docstrings are right: those of flows run on a checkout (flows/test_examples.py), the others here."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import decouple

PACKAGE = Path(decouple.__file__).parent
EXAMPLES = sorted(
    path.relative_to(PACKAGE.parent).with_suffix("").as_posix().replace("/", ".")
    for path in PACKAGE.rglob("*.py")
    if path.relative_to(PACKAGE).parts[0] != "flows" and ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_a_module_say_what_it_returns(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert done.attempted and not done.failed
