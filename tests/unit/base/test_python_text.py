"""Python that others wrote: whatever its parser cannot take is one error, which says so."""

from __future__ import annotations

import pytest

from decouple.base.python_text import compile_python, parse_python

REFUSED = {
    "no Python": "def f(:",
    "a null byte": "x = 1\0",
    "operators without end": "x = " + "-" * 100_000 + "1",
    "brackets without end": "x = " + "(" * 100_000,
    "names without end": "x" + ".y" * 100_000,
}


@pytest.mark.parametrize("read", [parse_python, compile_python])
@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_what_the_parser_cannot_take_is_a_syntax_error(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(SyntaxError, match=r"."):
        read(text, "given.py")


def test_python_is_parsed_and_not_run() -> None:
    assert parse_python("raise SystemExit").body
    compile_python(b"raise SystemExit", "given.py")
