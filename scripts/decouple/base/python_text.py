"""Parse others' Python; whatever its parser cannot take is a SyntaxError."""

from __future__ import annotations

import ast

_REFUSED = (ValueError, RecursionError, MemoryError)
"""A null byte; deeper nesting than the compiler or, in ``-----…1``, than the parser has memory for."""


def parse_python(text: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Parse a module. Raises SyntaxError, also for what is nested too deeply."""
    try:
        return ast.parse(text, filename=name)
    except _REFUSED as error:
        raise SyntaxError(_describe_error(error), (name, 1, None, None)) from error


def compile_python(text: str | bytes, name: str) -> None:
    """Compile a module, run nothing. Raises SyntaxError, also for too deep nesting."""
    try:
        compile(text, name, "exec", dont_inherit=True)
    except _REFUSED as error:
        raise SyntaxError(_describe_error(error), (name, 1, None, None)) from error


def _describe_error(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else "nested too deeply"
