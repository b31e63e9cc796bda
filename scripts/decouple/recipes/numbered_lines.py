"""Lines that know where they stood, and those of them whose loss matters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from decouple.recipes.file_text import is_cpp
from decouple.syntax.preprocessor import blank_comments, find_branches, parse_directives

_CONDITIONAL = re.compile(r"\s*#\s*(?:if|ifn?def|elif|elifn?def|else|endif)\b")
_WORD = re.compile(r"\w")
_COMMENT = re.compile(r"^[^\S\n]*#.*$", re.MULTILINE)
_ELSE = re.compile(r"[\s{}]*else[\s{]*$")


class Line(Struct, frozen=True):
    """A line without newline; ``number`` from 0 is upstream's place, None: ours."""

    text: str
    number: int | None = None


def number_lines(text: str) -> list[Line]:
    """Return the lines of upstream's ``text``."""
    return [Line(line, number) for number, line in enumerate(text.split("\n"))]


def find_telling_lines(text: str, path: str) -> set[int]:
    """Return numbers of lines other than blanks, brackets, conditionals, comments."""
    of_cpp = is_cpp(path)
    plain = blank_comments(text) if of_cpp else _COMMENT.sub("", text)
    branches = find_branches(list(parse_directives(text)), text.count("\n") + 1) if of_cpp else []
    ends = [end for branch in branches for end in ((branch.line, branch.end_line), (branch.end, branch.last_line))]
    continued = {number for first, last in ends for number in range(first, last)}
    return {
        number
        for number, line in enumerate(plain.split("\n"))
        if _WORD.search(line) and not _CONDITIONAL.match(line) and not _ELSE.match(line) and number not in continued
    }


def find_covered_lines(lines: Sequence[Line], patterns: Iterable[str]) -> Iterator[int]:
    """Yield the numbers of upstream's lines that ``patterns`` find, whole or in part."""
    text = "\n".join(line.text for line in lines)
    for pattern in patterns:
        for match in re.finditer(pattern, text, re.MULTILINE):
            first = text.count("\n", 0, match.start())
            last = first + match.group().rstrip("\n").count("\n")
            yield from (line.number for line in lines[first : last + 1] if line.number is not None)
