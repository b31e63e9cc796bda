"""CMake files as commands and lists, lists of Starlark, and a file that was made to be expensive."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from decouple.syntax.build_lists import CMakeLists, read_bzl, read_cmake


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


def test_a_list_may_grow_behind_its_first_assignment(tmp_path: Path) -> None:
    (tmp_path / "a.bzl").write_text('core = ["a.cpp"]\ncore += ["b.cpp"]\nall = core + ["c.cpp"]\n')
    assert read_bzl(tmp_path / "a.bzl")["all"] == ["a.cpp", "b.cpp", "c.cpp"]


@pytest.mark.parametrize("folder", ["", "${CMAKE_CURRENT_SOURCE_DIR}/", "${PROJECT_SOURCE_DIR}/aten/"])
def test_a_pattern_begins_where_the_file_or_the_project_does(tmp_path: Path, folder: str) -> None:
    (tmp_path / "aten").mkdir()
    (tmp_path / "aten/CMakeLists.txt").write_text(f"file(GLOB sources {folder}core/*.cpp)\n")
    lists = CMakeLists(tmp_path, ["aten/CMakeLists.txt"], ["aten/core/a.cpp", "core/b.cpp"], {})
    assert lists.get("sources") == {"aten/core/a.cpp"}
