"""Find a place by what it is: a function, a guard, an include, a line.

Ranges are of lines, from 0, end excluded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from decouple.recipes.file_text import decode_text, encode_text
from decouple.recipes.model import RecipeError, Selector
from decouple.syntax.build_lists import read_cmake
from decouple.syntax.conditions import Macros, evaluate_condition, list_macro_names
from decouple.syntax.preprocessor import Branch, find_branches, parse_directives, read_included_name

_CMAKE = re.compile(r"(?:\.cmake(?:\.in)?|CMakeLists\.txt)$")

if TYPE_CHECKING:
    import tree_sitter


class LineRange(Struct, frozen=True):
    """Lines ``start`` to ``stop`` (excluded) of a text, from 0."""

    start: int
    stop: int


def find_ranges(text: str, path: str, steps: Sequence[Selector], *, every: bool = False) -> list[LineRange]:
    """Find where ``steps`` lead in ``text``: one range, or with ``every`` one or more.

    Raises RecipeError naming the file, the step and the lines where there is none or more than one.
    """
    ranges = [LineRange(0, len(_split_lines(text)))]
    for number, step in enumerate(steps):
        inside = [inner for outer in ranges for inner in _find_inside(text, path, step, outer)]
        last = number == len(steps) - 1
        if not inside:
            raise RecipeError(
                f"{path}: {step} is not there",
                next_step="see what upstream made of it, then change the recipe in series/recipes",
                path=path,
            )
        if len(inside) > 1 and not (every and last):
            lines = ", ".join(str(inner.start + 1) for inner in inside[:8])
            raise RecipeError(
                f"{path}: {step} is there {len(inside)} times (lines {lines})",
                next_step="add has = … to the recipe in series/recipes to choose one",
                path=path,
            )
        ranges = inside
    return ranges


def count_places(text: str, path: str, steps: Sequence[Selector]) -> int:
    """Count the places that ``steps`` lead to."""
    ranges = [LineRange(0, len(_split_lines(text)))]
    for step in steps:
        ranges = [inner for outer in ranges for inner in _find_inside(text, path, step, outer)]
    return len(ranges)


def _find_inside(text: str, path: str, step: Selector, outer: LineRange) -> Iterator[LineRange]:
    lines = _split_lines(text)
    for candidate in _FINDERS[step.kind](text, path, step):
        if outer.start <= candidate.start and candidate.stop <= outer.stop:
            there = "\n".join(lines[candidate.start : candidate.stop]) if step.has is not None else ""
            if step.has is None or re.search(step.has, there, re.MULTILINE):
                yield candidate


@functools.lru_cache(maxsize=8)
def _split_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a text; step after step looks at them."""
    return tuple(text.split("\n"))


def _find_functions(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    for node, name in parse_definitions(text):
        if name.rpartition("::")[2] == (step.function or step.inside):
            if step.function is not None:
                yield LineRange(node.start_point[0], node.end_point[0] + 1)
            elif (body := node.child_by_field_name("body")) is not None:
                yield LineRange(body.start_point[0] + 1, body.end_point[0])


@functools.lru_cache(maxsize=32)
def parse_definitions(text: str) -> tuple[tuple[tree_sitter.Node, str], ...]:
    """Find every function definition, with its name as written.

    The text may be less than a whole translation unit.
    """
    functions: list[tuple[tree_sitter.Node, str]] = []
    pending = [_make_parser().parse(encode_text(text)).root_node]
    while pending:
        node = pending.pop()
        if node.type == "function_definition":
            name = node.child_by_field_name("declarator")
            while name is not None and (inner := name.child_by_field_name("declarator")) is not None:
                name = inner
            if name is not None and name.text is not None:
                functions.append((node, decode_text(name.text).lstrip("*& ")))
        pending += reversed(node.named_children)  # a definition is a named node; brackets and commas are not
    return tuple(functions)


@functools.cache
def _make_parser() -> tree_sitter.Parser:
    # a recipe that names no function needs no grammar, and one is needed only where a patch's text does not fit
    import tree_sitter
    import tree_sitter_cpp

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))


def _find_includes(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    for directive in parse_directives(text):
        if directive.word == "include" and read_included_name(directive) == step.include:
            yield LineRange(directive.line - 1, directive.end_line)


def _find_guards(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    if _CMAKE.search(path):
        yield from _find_cmake_guards(text, str(step.guard))
        return
    for group in group_branches(text):
        if step.guard in list_macro_names(group[0].own):
            yield LineRange(group[0].opening_line - 1, group[-1].last_line)


def _find_branches(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    for group in group_branches(text):
        for branch in group:
            if step.branch in list_macro_names(branch.own) and not _is_without(branch.own, step.branch):
                yield LineRange(branch.end_line, branch.end - 1)


def _is_without(condition: str, macro: str) -> bool:
    """Say whether what ``condition`` guards needs no ``macro`` to be compiled.

    ``A || B`` may be compiled for either: it counts as one with each.
    """
    without = evaluate_condition(condition, Macros(undefined=frozenset((macro,))))
    return without is True or (without is None and evaluate_condition(condition, Macros({macro: 1})) is False)


def group_branches(text: str) -> list[list[Branch]]:
    """Return the branches of each conditional of a C++ text.

    From ``#if`` to ``#endif``, ordered by their first line.
    """
    groups: dict[int, list[Branch]] = {}
    for branch in find_branches(list(parse_directives(text)), text.count("\n") + 1):
        groups.setdefault(branch.opening_line, []).append(branch)
    return [groups[line] for line in sorted(groups)]


def _find_cmake_guards(text: str, name: str) -> Iterator[LineRange]:
    opened: list[tuple[int, bool]] = []
    for command in read_cmake(text):
        word = command.name.lower()
        if word == "if":
            opened.append((command.line - 1, name in command.arguments))
        elif word == "endif" and opened:
            start, ours = opened.pop()
            if ours:
                yield LineRange(start, command.line)


def _find_lines(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    wanted = re.compile(str(step.line)).search
    for number, line in enumerate(_split_lines(text)):
        if wanted(line):
            yield LineRange(number, number + 1)


def _find_spans(text: str, path: str, step: Selector) -> Iterator[LineRange]:
    lines = _split_lines(text)
    begins, ends = re.compile(str(step.begin)).search, re.compile(str(step.end)).search
    for number, line in enumerate(lines):
        if begins(line):
            for last in range(number, len(lines)):
                if ends(lines[last]):
                    yield LineRange(number, last + 1)
                    break


_FINDERS = {
    "function": _find_functions,
    "inside": _find_functions,
    "include": _find_includes,
    "guard": _find_guards,
    "branch": _find_branches,
    "line": _find_lines,
    "begin": _find_spans,
}
