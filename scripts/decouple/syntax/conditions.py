"""Evaluate ``#if`` expressions under what is known about some macros.

The result is true, false, or not known. A scanner that cannot run the compiler still knows that stage 1 never defines
``USE_CUDA``. Three-valued logic turns that into "this branch is never compiled" without guessing about any other macro.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F']+|\d[\d']*)[uUlLzZ]*|(?P<char>'(?:[^'\\]++|\\.)++')"""
    r"""|(?P<op>&&|\|\||[=!<>]=|<<|>>|[-+*/%&|^~!<>?:(),])|(?P<other>\S))"""
)
# C++ [lex.digraph]: other spellings of the operators that may stand in #if.
_SPELLINGS = {
    "and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!=",
}  # fmt: skip
# C++ [expr.prim] precedence of the binary operators that appear in #if, loosest first.
_BINARY = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)

Value = int | None  # None: not known
_BITS = 64


class Macros(Struct, frozen=True):
    """The macros that are known.

    ``defined`` maps a name to its value, ``undefined`` names are certainly not defined.
    """

    defined: Mapping[str, int] = {}
    undefined: frozenset[str] = frozenset()
    _verdicts: dict[str, bool | None] = {}


class _Parser:
    def __init__(self, text: str, macros: Macros) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.macros = macros
        self.at = 0
        end = 0
        text = text.strip()
        while end < len(text):
            match = _TOKEN.match(text, end)
            if not match or not match.lastgroup:
                raise ValueError(text)
            kind, word = match.lastgroup, match.group(match.lastgroup)
            self.tokens.append(("op", _SPELLINGS[word]) if word in _SPELLINGS else (kind, word))
            end = match.end()

    def peek(self) -> str | None:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else None

    def take(self, expected: str | None = None) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise ValueError("unexpected end")
        token = self.tokens[self.at]
        if expected is not None and token[1] != expected:
            raise ValueError(token[1])
        self.at += 1
        return token

    def parse_ternary(self) -> Value:
        condition = self.parse_binary(0)
        if self.peek() != "?":
            return condition
        self.take("?")
        yes = self.parse_ternary()
        self.take(":")
        no = self.parse_ternary()
        if condition is None:
            return yes if yes == no else None
        return yes if condition else no

    def parse_binary(self, level: int) -> Value:
        if level == len(_BINARY):
            return self.parse_unary()
        left = self.parse_binary(level + 1)
        while (op := self.peek()) in _BINARY[level]:
            assert op is not None
            self.take()
            left = _apply_operator(op, left, self.parse_binary(level + 1))
        return left

    def parse_unary(self) -> Value:
        kind, text = self.take()
        if text == "(":
            value = self.parse_ternary()
            self.take(")")
            return value
        if text == "!":
            operand = self.parse_unary()
            return None if operand is None else int(not operand)
        if text in "-+~" and kind == "op":
            operand = self.parse_unary()
            return None if operand is None else _check_range({"-": -operand, "+": operand, "~": ~operand}[text])
        if kind == "number":
            return _parse_number(text.replace("'", ""))
        if kind == "name":
            return self.evaluate_name(text)
        if kind == "char":
            return None
        raise ValueError(text)

    def evaluate_name(self, text: str) -> Value:
        if text == "defined":
            parenthesised = self.peek() == "("
            if parenthesised:
                self.take("(")
            name = self.take()[1]
            if parenthesised:
                self.take(")")
            return 1 if name in self.macros.defined else 0 if name in self.macros.undefined else None
        if self.peek() == "(":  # a function-like macro, or __has_include(<...>): its arguments say nothing here
            depth = 0
            while True:
                token = self.take()[1]
                depth += (token == "(") - (token == ")")
                if not depth:
                    break
            return 0 if text in self.macros.undefined else None
        if text in self.macros.defined:
            return self.macros.defined[text]
        return 0 if text in self.macros.undefined else None  # [cpp.cond]: an unknown identifier is 0


def _apply_operator(op: str, left: Value, right: Value) -> Value:
    if op == "&&":
        if left == 0 or right == 0:
            return 0
        return None if left is None or right is None else 1
    if op == "||":
        if left or right:
            return 1
        return None if left is None or right is None else 0
    if left is None or right is None:
        return None
    if (op in "/%" and (left < 0 or right <= 0)) or (op in ("<<", ">>") and not 0 <= right < _BITS):
        return None  # Python rounds a negative quotient down, C towards zero
    results = {
        "|": left | right, "^": left ^ right, "&": left & right,
        "==": int(left == right), "!=": int(left != right),
        "<": int(left < right), ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right),
        "+": left + right, "-": left - right, "*": left * right,
    }  # fmt: skip
    if op in results:
        return _check_range(results[op])
    if op in ("<<", ">>"):
        return _check_range(left << right if op == "<<" else left >> right)
    return left // right if op == "/" else left % right


def _parse_number(text: str) -> Value:
    base = 0 if text[:2] in ("0x", "0X") else 8 if text[0] == "0" else 10
    return _check_range(int(text, base))


def _check_range(value: int) -> Value:
    """Return ``value``; None where the preprocessor's widest type has not that."""
    return value if -(1 << (_BITS - 1)) <= value < 1 << _BITS else None


def evaluate_condition(expression: str, macros: Macros) -> bool | None:
    """Return whether ``#if expression`` holds.

    True, False, or None when it depends on a macro that is not known.

    An expression that this reader cannot parse, or that is nested too deeply for it, is not known; a compiler would
    have refused a wrong one. ``macros`` remembers the answer: a tree asks few questions, each of them many times.
    """
    verdicts = macros._verdicts
    if expression not in verdicts:
        verdicts[expression] = _evaluate_uncached(expression, macros)
    return verdicts[expression]


def _evaluate_uncached(expression: str, macros: Macros) -> bool | None:
    try:
        parser = _Parser(expression, macros)
        value = parser.parse_ternary()
        if parser.at != len(parser.tokens):
            return None
    except (ValueError, RecursionError):
        return None
    return None if value is None else bool(value)


_NAME = re.compile(r"[A-Za-z_]\w*")


def list_macro_names(expression: str) -> tuple[str, ...]:
    """List the macro names that an ``#if`` expression reads, in order, each once.

    ``defined`` and operators that are words are left out.
    """
    names = _NAME.findall(expression)
    return tuple(dict.fromkeys(name for name in names if name != "defined" and name not in _SPELLINGS))
