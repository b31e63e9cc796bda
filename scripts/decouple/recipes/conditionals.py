"""Settle conditionals for known macros, as unifdef(1) does; other branches go."""

from __future__ import annotations

import re
from collections.abc import Sequence

from decouple.recipes.numbered_lines import Line
from decouple.recipes.places import group_branches
from decouple.syntax.conditions import Macros, evaluate_condition, list_macro_names
from decouple.syntax.preprocessor import Branch, parse_directives

_ELIF = re.compile(r"(#[ \t]*)el(?=if)")


def settle_lines(lines: Sequence[Line], *, define: Sequence[str] = (), undefine: Sequence[str] = ()) -> list[Line]:
    """Return ``lines`` as they read under known macros.

    Those of ``define`` are defined as 1 and those of ``undefine`` are not. A conditional that the macros do not decide
    stays as it is. Where one goes whole between two empty lines, so does the one below. Each line that stays keeps its
    number.
    """
    macros = Macros(dict.fromkeys(define, 1), frozenset(undefine))
    known = {*define, *undefine}
    left, at = list(lines), 0
    while True:
        for group in group_branches("\n".join(line.text for line in left)):
            if group[0].opening_line > at and (kept := _find_kept_lines(left, group, macros, known)) is not None:
                start, stop = group[0].opening_line - 1, group[-1].last_line
                left[start:stop] = kept
                if not kept and start and stop and not _read_line(left, start - 1) and not _read_line(left, start):
                    del left[start]
                at = start
                break
        else:
            return left


def find_unpaired_line(text: str) -> int:
    """Find the line (from 1) of a directive without its ``#if`` or ``#endif``; else 0."""
    opened: list[int] = []
    for directive in parse_directives(text):
        if directive.word in ("if", "ifdef", "ifndef"):
            opened.append(directive.line)
        elif directive.word in ("elif", "elifdef", "elifndef", "else", "endif") and not opened:
            return directive.line
        elif directive.word == "endif":
            opened.pop()
    return opened[-1] if opened else 0


def _find_kept_lines(
    lines: Sequence[Line], group: Sequence[Branch], macros: Macros, known: set[str]
) -> list[Line] | None:
    """Return what stays of a conditional; None where ``known`` does not decide it.

    Its first branch has to be decided.
    """
    first = group[0]
    if not known & set(list_macro_names(first.own)) or (value := evaluate_condition(first.own, macros)) is None:
        return None
    if value:
        return list(lines[first.end_line : first.end - 1])
    rest = group[1:]
    if not rest:
        return []
    if rest[0].word == "else":
        return list(lines[rest[0].end_line : rest[0].end - 1])
    opening, *others = lines[rest[0].line - 1 : group[-1].last_line]
    return [Line(_ELIF.sub(r"\1", opening.text, count=1), opening.number), *others]


def _read_line(lines: Sequence[Line], number: int) -> str:
    return lines[number].text.strip() if number < len(lines) else "end"
