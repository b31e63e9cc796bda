"""CMake files as commands: brackets, quotes and comments, and a file that was made to be expensive."""

from __future__ import annotations

import tracemalloc

import pytest

from decouple.syntax.build_lists import read_cmake


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("set(A b c)", ("A", "b", "c")),
        ('set(A "b c" d\\ e)', ("A", "b c", "d\\ e")),
        ("set(A [==[b ]] c]==] d)", ("A", "[==[b ]] c]==]", "d")),
        ("set(A # b\n c #[[ d\n e ]] f)", ("A", "c", "f")),
        ('set(A -Dx="b c" (d) e)', ("A", '-Dx="b c"', "(", "d", ")", "e")),
        ("set(A [=[b [[c)", ("A", "[=[b", "[[c")),
    ],
    ids=["words", "quotes", "a bracket", "comments", "a quote in a word", "brackets that nothing closes"],
)
def test_the_arguments_of_a_command(text: str, arguments: tuple[str, ...]) -> None:
    (command,) = read_cmake(text)
    assert (command.name, command.arguments) == ("set", arguments)


def test_a_word_of_a_million_characters_takes_no_more_than_itself() -> None:
    text = f"set(A {'9' * 1_000_000})"
    tracemalloc.start()
    try:
        (command,) = read_cmake(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(command.arguments[1]) == 1_000_000
    assert peak < 10_000_000
