"""Read C, C++ and CUDA text: comments blanked, directives, branches, extents."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from decouple.syntax.conditions import Macros, evaluate_condition

CPP_SUFFIXES = (".h", ".hpp", ".hh", ".inl", ".c", ".cc", ".cpp", ".cu", ".cuh", ".mm", ".m", ".hip", ".h.in")
"""Ends of the names of files of C, C++ and what is built on them; the last is a header's template for CMake."""

# One pass over what may hide a '#', a quote or a word: comments, strings, raw strings, characters. Each alternative
# begins with a literal, which lets `re` jump from one candidate to the next; the look-behinds stand after it for that.
# A quote behind a digit is a digit separator (1'000), not a character. Runs are possessive (++): `re` keeps what it may
# try again, 100 bytes and more for each character of a line.
_HIDING = re.compile(
    r"""//(?:[^\n\\]++|\\\r\n|\\.)*+"""
    r"""|/\*.*?(?:\*/|\Z)"""
    r"""|R"(?P<tag>[^()\\\s"]{0,16})\(.*?\)(?P=tag)\""""
    r"""|"(?:[^"\\\n]++|\\\r\n|\\.)*+\""""
    r"""|'(?<![0-9a-fA-F]')(?:[^'\\\n]++|\\.)++'""",
    re.DOTALL,
)
_SPLICED_COMMENT = re.compile(r"//[^\n]*\\\r?\n")
_NOT_NEWLINE = re.compile(r"[^\n]")
_SPLICE = re.compile(r"\\\r?\n")
_REST = re.compile(rf"(?:[^\n\\]++|{_SPLICE.pattern}|\\.)*+")
# Begins with a literal as well; whether only blanks stand in front of it on its line is asked afterwards.
_DIRECTIVE = re.compile(rf"#[ \t]*(?P<word>[a-z_]+)\b(?P<rest>{_REST.pattern})")


def _blank_text(text: str) -> str:
    return _NOT_NEWLINE.sub(" ", text)


def blank_comments(text: str) -> str:
    """Return ``text`` with each comment blanked by spaces.

    It has the same length and line numbers, and strings are untouched.
    """

    def blank_part(found: re.Match[str]) -> str:
        part = found.group()
        return _blank_text(part) if part.startswith(("//", "/*")) else part

    return _HIDING.sub(blank_part, text)


def split_strings(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Return the code of ``text``, and its string literals.

    A literal is an offset and the content as written.

    The code has comments and the contents of strings and characters blanked, at the same length, so that offsets and
    line numbers hold.
    """
    strings: list[tuple[int, str]] = []

    def blank_part(found: re.Match[str]) -> str:
        part = found.group()
        if part.startswith(("//", "/*")):
            return _blank_text(part)
        quote = part.index(part[-1])
        if part[-1] == '"':
            strings.append((found.start(), part[quote + 1 : -1]))
        return part[: quote + 1] + _blank_text(part[quote + 1 : -1]) + part[-1]

    return _HIDING.sub(blank_part, text), strings


Spans = Sequence[tuple[int, int]]
"""Where something begins and ends in a text, in order, without overlap."""


def find_hidden_spans(text: str) -> list[tuple[int, int]]:
    """Find where the comments, strings and characters of ``text`` stand.

    Quotes and comment signs are included.
    """
    return [match.span() for match in _HIDING.finditer(text)]


class Directive(Struct, frozen=True):
    """A preprocessor line.

    ``word`` is without '#', ``rest`` with line splices joined, ``line`` from 1. It goes to ``end_line``: over splices,
    and over the lines of a comment that begins in it.
    """

    word: str
    rest: str
    line: int
    end_line: int


def parse_directives(text: str, spans: Spans | None = None) -> Iterator[Directive]:
    """Yield the directives of a file in order.

    ``spans`` is the result of `find_hidden_spans`, if the caller knows it already.
    """
    if "#" not in text:
        return
    # A string stays, for it may be the name of an include.
    covers = [span for span in (_find_spans_to_last_comment(text) if spans is None else spans) if text[span[0]] in "/R"]
    begins = [begin for begin, _ in covers]
    line, counted, at = 1, 0, 0
    while match := _DIRECTIVE.search(text, at):
        start, at = match.start(), match.end()
        nth = bisect.bisect_right(begins, start) - 1
        if nth >= 0 and start < covers[nth][1]:
            at = covers[nth][1]
            continue
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if before and not before.isspace() and not _is_comment(before, start, covers, nth):
            at = start + 1
            continue
        rest = match["rest"]
        if nth + 1 < len(covers) and covers[nth + 1][0] < at:
            rest, at = _blank_spans(text, match.start("rest"), at, covers, nth + 1)
        if "//" in rest and match["word"] not in ("include", "include_next"):
            rest = blank_comments(rest)
        line += text.count("\n", counted, start)
        counted = start
        yield Directive(match["word"], _SPLICE.sub(" ", rest).strip(), line, line + text.count("\n", start, at))


def _find_spans_to_last_comment(text: str) -> Iterator[tuple[int, int]]:
    """Yield `find_hidden_spans`, as far as it can hide a line.

    That is to the last ``*/``, which in most files ends a notice at the top, or to the last ``//`` whose line goes on
    in the next one.

    A raw string or a comment that never ends asks for all of it.
    """
    last = max([text.rfind("*/"), *(match.end() for match in _SPLICED_COMMENT.finditer(text))])
    if 'R"' in text or "/*" in text[max(last, 0) :]:
        last = len(text)
    for match in _HIDING.finditer(text) if last >= 0 else ():
        if match.start() >= last:
            break
        yield match.span()


def _is_comment(before: str, start: int, covers: Spans, nth: int) -> bool:
    """Say whether the line in front of ``start`` holds blanks and comments only.

    ``before`` is that line.
    """
    line = start - len(before)
    while nth >= 0 and covers[nth][1] > line:
        begin, end = covers[nth]
        before = before[: max(begin - line, 0)] + " " * (end - max(begin, line)) + before[end - line :]
        nth -= 1
    return not before.strip(" \t")


def _blank_spans(text: str, begin: int, end: int, covers: Spans, nth: int) -> tuple[str, int]:
    """Return ``text[begin:end]`` with comments blanked, and where it ends.

    A comment stands for a blank, so where one goes on past ``end``, so does the line that it is in.
    """
    parts: list[str] = []
    at = begin
    while nth < len(covers) and covers[nth][0] < end:
        first, last = covers[nth]
        parts += [text[at:first], " " * (last - first)]
        if last > end and (rest := _REST.match(text, last)):
            end = rest.end()
        at = last
        nth += 1
    parts.append(text[at:end])
    return "".join(parts), end


class Branch(Struct):
    """A branch of a conditional.

    It goes from ``#if`` up to the next ``#elif``/``#else``/``#endif`` of the same level.

    ``condition`` is what holds for exactly this branch, earlier siblings negated; ``own`` only the expression
    written on its line ("" for ``#else``). The directive goes from ``line`` to ``end_line``, the one that closes the
    branch from ``end`` to ``last_line``. ``opening_line`` is the line of the ``#if`` that began the group of siblings,
    ``parent`` the enclosing branch.
    """

    word: str
    own: str
    condition: str
    line: int
    end_line: int
    end: int
    last_line: int
    opening_line: int
    parent: Branch | None = None

    def list_conditions(self) -> list[str]:
        """List the condition of this branch and of all around it, outermost first."""
        found = [self.condition]
        outer = self.parent
        while outer:
            found.append(outer.condition)
            outer = outer.parent
        return found[::-1]


def _make_expression(directive: Directive) -> str:
    if directive.word in ("ifdef", "elifdef"):
        return f"defined({directive.rest.split()[0] if directive.rest else ''})"
    if directive.word in ("ifndef", "elifndef"):
        return f"!defined({directive.rest.split()[0] if directive.rest else ''})"
    return directive.rest


def find_branches(found: list[Directive], last_line: int) -> list[Branch]:
    """Find all conditional branches, in the order of their first line.

    A branch never closed ends at ``last_line``.
    """
    out: list[Branch] = []
    stack: list[tuple[Branch, list[str]]] = []
    for directive in found:
        word = directive.word
        if word in ("if", "ifdef", "ifndef"):
            own = _make_expression(directive)
            parent = stack[-1][0] if stack else None
            at = directive.line, directive.end_line, last_line, last_line
            branch = Branch(word, own, own, *at, directive.line, parent)
            out.append(branch)
            stack.append((branch, [own]))
        elif word in ("elif", "elifdef", "elifndef", "else") and stack:
            previous, seen = stack.pop()
            previous.end, previous.last_line = directive.line, directive.end_line
            own = "" if word == "else" else _make_expression(directive)
            negated = [f"!({expression})" for expression in seen]
            condition = " && ".join([*negated, f"({own})"] if own else negated)
            at = directive.line, directive.end_line, last_line, last_line
            branch = Branch(word, own, condition, *at, previous.opening_line, previous.parent)
            out.append(branch)
            stack.append((branch, [*seen, own] if own else seen))
        elif word == "endif" and stack:
            closed = stack.pop()[0]
            closed.end, closed.last_line = directive.line, directive.end_line
    return out


class Include(Struct, frozen=True):
    """An ``#include``: its name as written, whether with quotes, and its line.

    ``live`` says whether it can be compiled at all.
    """

    name: str
    quoted: bool
    line: int
    live: bool | None


_INCLUDE = re.compile(r"""(?:<(?P<angle>[^>\n]+)>|"(?P<quote>[^"\n]+)")""")


def read_included_name(directive: Directive) -> str:
    """Return what an ``#include`` names, without its quotes and what stands behind it.

    Empty where that is a macro.
    """
    name = _INCLUDE.match(directive.rest)
    return (name["quote"] or name["angle"]) if name else ""


def is_live(branch: Branch | None, macros: Macros) -> bool | None:
    """Say whether ``branch`` can be compiled under ``macros``.

    False when it cannot, True when it certainly is, else None.
    """
    verdict: bool | None = True
    while branch is not None:
        value = evaluate_condition(branch.condition, macros)
        if value is False:
            return False
        if value is None:
            verdict = None
        branch = branch.parent
    return verdict


def parse_includes(text: str, macros: Macros) -> list[Include]:
    """List the include lines of ``text``.

    Computed includes (``#include MACRO``) name no file and are left out.
    """
    lines = list(parse_directives(text))
    out: list[Include] = []
    stack: list[Branch | None] = [None]
    spans = iter(find_branches(lines, text.count("\n") + 1))
    for directive in lines:
        word = directive.word
        if word in ("if", "ifdef", "ifndef"):
            stack.append(next(spans))
        elif word in ("elif", "elifdef", "elifndef", "else") and len(stack) > 1:
            stack[-1] = next(spans)
        elif word == "endif" and len(stack) > 1:
            stack.pop()
        elif word in ("include", "include_next") and (name := _INCLUDE.match(directive.rest)):
            quoted = name["quote"] is not None
            out.append(Include(name["quote"] or name["angle"], quoted, directive.line, is_live(stack[-1], macros)))
    return out
