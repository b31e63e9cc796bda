"""A line of a million characters takes a few copies of itself: a regular expression keeps no state for each of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from decouple.census import taxonomy as taxonomies
from decouple.census.python import may_access_binding
from decouple.syntax.conditions import Macros, evaluate_condition
from decouple.syntax.preprocessor import find_hidden_spans, parse_directives

LENGTH = 1_000_000
TAXONOMY = taxonomies.load_taxonomy()


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (find_hidden_spans, "// " + "a" * LENGTH),
        (find_hidden_spans, '"' + "a" * LENGTH + '"'),
        (find_hidden_spans, "'" + "a" * LENGTH + "'"),
        (lambda text: list(parse_directives(text)), "#if " + "a" * LENGTH),
        (lambda text: evaluate_condition(text, Macros()), "'" + "a" * LENGTH + "'"),
        (lambda text: may_access_binding(text.encode(), TAXONOMY), "import torch._C.x import " + "a" * LENGTH),
    ],
    ids=["a comment", "a string", "a character", "a directive", "a character in a condition", "an import"],
)
def test_a_long_line_is_read_in_little_memory(read: Callable[[str], object], text: str) -> None:
    tracemalloc.start()
    try:
        read(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * LENGTH
