"""C++ source of the part of a stand-in that nobody wrote by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from simcuda.declarations import Function, Parameter
from simcuda.library import FillRule, Library


def generate_sources(
    library: Library, declared: Mapping[str, Function], wanted: Iterable[str], fills: tuple[FillRule, ...]
) -> dict[str, str]:
    """Return file name -> text: a definition for each name in ``wanted``.

    It answers "success" where the rules say so, else not.
    """
    lines = [f"#include <{header}>" for header in library.headers]
    lines += ['#include "libraries/record.h"', ""]
    undeclared_names = []
    for name in sorted(set(wanted)):
        function = declared.get(name)
        if function is not None and function.parameters is not None:
            lines.append(define_function(function, library, fills))
        else:
            undeclared_names.append(name)
    undeclared = '#include "interface.h"\n' + define_undeclared(undeclared_names, library.not_supported)
    return {"declared.cpp": "\n".join(lines) + "\n", "undeclared.cpp": undeclared}


def define_function(function: Function, library: Library, fills: tuple[FillRule, ...]) -> str:
    """Define a function with its real prototype; the compiler holds it to the header."""
    assert function.parameters is not None
    listed = ", ".join(f"{p.type} {p.name}" for p in function.parameters)
    head = f'extern "C" __attribute__((visibility("default"))) {function.returns} {function.name}({listed})'
    if not library.answers_success(function.name):
        refused = make_return_statement(function.returns, library.not_supported)
        return f'{head} {{ simcuda_not_supported("{function.name}"); {refused} }}'
    body = [f'simlib::Call call("{function.name}");']
    body += [f"call << {p.name};" for p in function.parameters]
    for p in function.parameters:
        target = p.writable_target
        fill = target and next((rule for rule in fills if rule.matches(function.name, target, p.name)), None)
        if fill and target != "void":
            body.append(make_fill_statement(fill, p, function.parameters))
    return f"{head} {{ {' '.join(body)} {make_return_statement(function.returns, 0)} }}"


def make_fill_statement(fill: FillRule, pointer: Parameter, parameters: Iterable[Parameter]) -> str:
    """Return the statement that writes through one pointer."""
    if not fill.value.startswith("simlib::"):
        return f"simlib::put({pointer.name}, {fill.value});"
    counts = [p.name for p in parameters if fill.count and re.fullmatch(fill.count, p.name)]
    return f"{fill.value}({', '.join([pointer.name, *counts[:1]])});"


def make_return_statement(returns: str, code: int) -> str:
    """Write the return statement: a status code where one is returned, else empty."""
    return "return;" if returns == "void" else f"return simlib::answer<{returns}>({code});"


def define_undeclared(names: Iterable[str], code: int) -> str:
    """Define exports that nothing declares, or only in a way that is not parsed."""
    return "".join(
        f'extern "C" __attribute__((visibility("default"))) int {name}(void) '
        f'{{ simcuda_not_supported("{name}"); return {code}; }}\n'
        for name in names
    )


def define_forwards(names: Mapping[str, str]) -> str:
    """Define functions that are another's under their own name, for x86-64.

    A jump leaves every argument where it is, whatever its type.
    """
    return "".join(
        f'asm(".text\\n.globl {name}\\n.type {name}, @function\\n{name}: jmp {target}@PLT");\n'
        for name, target in names.items()
    )
