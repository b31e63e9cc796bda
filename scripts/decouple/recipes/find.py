"""Finding a place by what it is: a function, a guard, an include, a line. Ranges of lines, from 0, end excluded."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from decouple.recipes.model import RecipeError, Selector
from decouple.syntax.build_lists import read_cmake
from decouple.syntax.conditions import names_in
from decouple.syntax.preprocessor import Branch, branches, directives

_CMAKE = re.compile(r"(?:\.cmake(?:\.in)?|CMakeLists\.txt)$")

if TYPE_CHECKING:
    import tree_sitter


class Range(Struct, frozen=True):
    """Lines ``start`` to ``stop`` (excluded) of a text, from 0."""

    start: int
    stop: int


def find(text: str, path: str, steps: Sequence[Selector], *, every: bool = False) -> list[Range]:
    """Where ``steps`` lead in ``text``: one range, or with ``every`` one or more.

    Raises RecipeError naming the file, the step and the lines where there is none or more than one.
    """
    ranges = [Range(0, len(_lines_of(text)))]
    for number, step in enumerate(steps):
        found = [one for outer in ranges for one in _inside(text, path, step, outer)]
        last = number == len(steps) - 1
        if not found:
            raise RecipeError(
                f"{path}: {step} is not there",
                next_step="see what upstream made of it, then change the recipe in series/recipes",
                path=path,
            )
        if len(found) > 1 and not (every and last):
            lines = ", ".join(str(one.start + 1) for one in found[:8])
            raise RecipeError(
                f"{path}: {step} is there {len(found)} times (lines {lines})",
                next_step="add has = … to the recipe in series/recipes to choose one",
                path=path,
            )
        ranges = found
    return ranges


def found(text: str, path: str, steps: Sequence[Selector]) -> int:
    """How many places ``steps`` lead to."""
    ranges = [Range(0, len(_lines_of(text)))]
    for step in steps:
        ranges = [one for outer in ranges for one in _inside(text, path, step, outer)]
    return len(ranges)


def _inside(text: str, path: str, step: Selector, outer: Range) -> Iterator[Range]:
    lines = _lines_of(text)
    for one in _FINDERS[step.kind](text, path, step):
        there = "\n".join(lines[one.start : one.stop])
        within = outer.start <= one.start and one.stop <= outer.stop
        if within and (step.has is None or re.search(step.has, there, re.MULTILINE)):
            yield one


@functools.lru_cache(maxsize=8)
def _lines_of(text: str) -> tuple[str, ...]:
    """The lines of a text that step after step looks at."""
    return tuple(text.split("\n"))


def _functions(text: str, path: str, step: Selector) -> Iterator[Range]:
    for node, name in definitions(text):
        if name.rpartition("::")[2] == (step.function or step.inside):
            if step.function is not None:
                yield Range(node.start_point[0], node.end_point[0] + 1)
            elif (body := node.child_by_field_name("body")) is not None:
                yield Range(body.start_point[0] + 1, body.end_point[0])


@functools.lru_cache(maxsize=32)
def definitions(text: str) -> tuple[tuple[tree_sitter.Node, str], ...]:
    """Every function definition with its name as written, also in text that is no whole translation unit."""
    found: list[tuple[tree_sitter.Node, str]] = []
    pending = [_parser().parse(text.encode()).root_node]
    while pending:
        node = pending.pop()
        if node.type == "function_definition":
            name = node.child_by_field_name("declarator")
            while name is not None and (inner := name.child_by_field_name("declarator")) is not None:
                name = inner
            if name is not None and name.text is not None:
                found.append((node, name.text.decode().lstrip("*& ")))
        pending += reversed(node.named_children)  # a definition is a named node; brackets and commas are not
    return tuple(found)


@functools.cache
def _parser() -> tree_sitter.Parser:
    # a recipe that names no function needs no grammar, and one is needed only where a patch's text does not fit
    import tree_sitter
    import tree_sitter_cpp

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


def _includes(text: str, path: str, step: Selector) -> Iterator[Range]:
    for one in directives(text):
        if one.word == "include" and one.rest.strip('<>"') == step.include:
            yield Range(one.line - 1, one.end_line)


def _guards(text: str, path: str, step: Selector) -> Iterator[Range]:
    if _CMAKE.search(path):
        yield from _cmake_guards(text, str(step.guard))
        return
    for group in grouped(text):
        if step.guard in names_in(group[0].own):
            yield Range(group[0].opened - 1, group[-1].end)


def _branches(text: str, path: str, step: Selector) -> Iterator[Range]:
    for group in grouped(text):
        for one in group:
            if step.branch in names_in(one.own) and not re.search(rf"!\s*(defined\s*\(?\s*)?{step.branch}\b", one.own):
                yield Range(one.line, one.end - 1)


def grouped(text: str) -> list[list[Branch]]:
    """The conditionals of a C++ text: the branches of each from ``#if`` to ``#endif``, by their first line."""
    groups: dict[int, list[Branch]] = {}
    for one in branches(list(directives(text)), text.count("\n") + 1):
        groups.setdefault(one.opened, []).append(one)
    return [groups[line] for line in sorted(groups)]


def _cmake_guards(text: str, name: str) -> Iterator[Range]:
    opened: list[tuple[int, bool]] = []
    for command in read_cmake(text):
        word = command.name.lower()
        if word == "if":
            opened.append((command.line - 1, name in command.arguments))
        elif word == "endif" and opened:
            start, ours = opened.pop()
            if ours:
                yield Range(start, command.line)


def _lines(text: str, path: str, step: Selector) -> Iterator[Range]:
    wanted = re.compile(str(step.line)).search
    for number, line in enumerate(_lines_of(text)):
        if wanted(line):
            yield Range(number, number + 1)


def _spans(text: str, path: str, step: Selector) -> Iterator[Range]:
    lines = _lines_of(text)
    begins, ends = re.compile(str(step.begin)).search, re.compile(str(step.end)).search
    for number, line in enumerate(lines):
        if begins(line):
            for last in range(number, len(lines)):
                if ends(lines[last]):
                    yield Range(number, last + 1)
                    break


_FINDERS = {
    "function": _functions,
    "inside": _functions,
    "include": _includes,
    "guard": _guards,
    "branch": _branches,
    "line": _lines,
    "begin": _spans,
}
