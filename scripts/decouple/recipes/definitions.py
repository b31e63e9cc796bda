"""Find the functions of a text with their scopes: none may stand there twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from decouple.base.python_text import parse_python
from decouple.recipes.file_text import is_cpp
from decouple.recipes.places import parse_definitions

if TYPE_CHECKING:
    import tree_sitter

_SCOPES = {"namespace_definition", "class_specifier", "struct_specifier"}


def find_signatures(text: str, path: str) -> dict[str, list[int]]:
    """Map each function that ``text`` defines to the lines (from 1) where it does.

    In other languages there are none. An overload in C++ is another function, and so is a method of another class.
    """
    signatures: dict[str, list[int]] = {}
    pairs = (
        _find_cpp_functions(text)
        if is_cpp(path)
        else _find_python_functions(text)
        if path.endswith((".py", ".pyi"))
        else ()
    )
    for name, line in pairs:
        signatures.setdefault(name, []).append(line)
    return signatures


def _find_cpp_functions(text: str) -> Iterator[tuple[str, int]]:
    for node, _ in parse_definitions(text):
        declarator = node.child_by_field_name("declarator")
        if declarator is not None and declarator.text is not None:
            written = "".join(declarator.text.decode("utf-8", "replace").split())
            yield "::".join([*_list_scopes(node), written]), node.start_point[0] + 1


def _list_scopes(node: tree_sitter.Node) -> list[str]:
    names: list[str] = []
    outer = node.parent
    while outer is not None:
        if outer.type in _SCOPES:
            name = outer.child_by_field_name("name")
            names.insert(0, name.text.decode("utf-8", "replace") if name is not None and name.text else "")
        outer = outer.parent
    return names


def _find_python_functions(text: str) -> Iterator[tuple[str, int]]:
    try:
        pending: list[tuple[str, ast.AST]] = [("", parse_python(text))]
    except SyntaxError:
        return
    while pending:
        scope, node = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{scope}{child.name}"
                if not isinstance(child, ast.ClassDef) and not child.decorator_list:  # overloads and setters share one
                    yield name, child.lineno
                pending.append((f"{name}.", child))
            else:
                pending.append((scope, child))
