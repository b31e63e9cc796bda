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
_SIGN = 1 << (_BITS - 1)


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
        self.unsigned = False
        """Whether a number is of the unsigned type, to which a compiler converts what is calculated with it."""
        self.at = 0
        end = 0
        text = text.strip()
        while end < len(text):
            match = _TOKEN.match(text, end)
            if not match or not match.lastgroup:
                raise ValueError(text)
            kind, word = match.lastgroup, match.group(match.lastgroup)
            if kind == "number":
                self.unsigned |= "u" in match.group().lower() or _parse_number(word) >= _SIGN
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
            left = self.check_range(_apply_operator(op, left, self.parse_binary(level + 1)))
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
            return None if operand is None else self.check_range({"-": -operand, "+": operand, "~": ~operand}[text])
        if kind == "number":
            number = _parse_number(text)
            return number if number < 2 * _SIGN else None
        if kind == "name":
            return self.evaluate_name(text)
        if kind == "char":
            return None
        raise ValueError(text)

    def check_range(self, value: Value) -> Value:
        """Return a result as the preprocessor's widest type has it.

        None where it has not that. Where a number is unsigned, what has the sign's bit is not known: its type depends
        on where each number stands.
        """
        if value is None or not -_SIGN <= value < 2 * _SIGN or (self.unsigned and not 0 <= value < _SIGN):
            return None
        return value if value < _SIGN else value - 2 * _SIGN

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
        return results[op]
    if op in ("<<", ">>"):
        return left << right if op == "<<" else left >> right
    return left // right if op == "/" else left % right


def _parse_number(text: str) -> int:
    base = 0 if text[:2] in ("0x", "0X") else 8 if text[0] == "0" else 10
    return int(text.replace("'", ""), base)


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
